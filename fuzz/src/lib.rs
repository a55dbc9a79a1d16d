//! Fuzz targets as plain functions, with their committed corpora.
