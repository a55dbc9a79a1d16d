//! Checks of structure and style that run as a test.
