//! The network runtime: reactor, TLS links, quotas, job pool and journal thread.
