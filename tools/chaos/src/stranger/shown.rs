//! What a client shows in TLS: raw keys, certificates, nothing; with the right secret or another one.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ServerSessionMemoryCache};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};
use synod_crypto::{PublicKey, Seed};

/// TLS 1.3 alone.
pub const TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
/// TLS 1.2 alone.
pub const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// The DER in front of a raw Ed25519 key (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The DER in front of an Ed25519 secret (RFC 8410, version 1).
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// Most early data that a ticket of [`server`] allows.
const EARLY_MAX: u32 = 16 << 10;

/// What a client shows.
#[derive(Clone)]
pub struct Shown {
    der: Vec<u8>,
    signer: Seed,
    raw: bool,
    present: bool,
}

impl Shown {
    /// Its own raw key.
    #[must_use]
    pub fn own(seed: &Seed) -> Self {
        Self::raw(&seed.public(), seed)
    }

    /// The raw key `key`, signing with `signer`, which may belong to another key.
    #[must_use]
    pub fn raw(key: &PublicKey, signer: &Seed) -> Self {
        Self { der: raw_key(key), signer: signer.clone(), raw: true, present: true }
    }

    /// A certificate, offered as one.
    #[must_use]
    pub fn certificate(der: Vec<u8>, signer: &Seed) -> Self {
        Self { der, signer: signer.clone(), raw: false, present: true }
    }

    /// A certificate where a raw key was agreed on.
    #[must_use]
    pub fn disguised(der: Vec<u8>, signer: &Seed) -> Self {
        Self { der, signer: signer.clone(), raw: true, present: true }
    }

    /// No key, though raw keys are spoken.
    #[must_use]
    pub fn nothing(signer: &Seed) -> Self {
        Self { der: Vec::new(), signer: signer.clone(), raw: true, present: false }
    }

    fn certified(&self) -> io::Result<Arc<CertifiedKey>> {
        let key = signing(&self.signer)?;
        Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(self.der.clone())], key)))
    }
}

/// The DER of a raw key.
pub(crate) fn raw_key(key: &PublicKey) -> Vec<u8> {
    [&SPKI[..], &key.0].concat()
}

/// What signs with a secret.
pub(crate) fn signing(seed: &Seed) -> io::Result<Arc<dyn SigningKey>> {
    let secret = [&PKCS8[..], seed.expose()].concat();
    aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(secret)).map_err(io::Error::other)
}

/// A secret that nobody knows.
///
/// # Errors
/// The system has no randomness.
pub fn draw_seed() -> io::Result<Seed> {
    let mut bytes = [0; 32];
    let random = aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| io::Error::other("the system has no randomness"))?;
    Ok(Seed::new(bytes))
}

fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    // The suite that nodes prefer, so that a ticket made elsewhere is of a suite they speak.
    provider.cipher_suites.retain(|suite| {
        let name = suite.suite();
        name != rustls::CipherSuite::TLS13_AES_256_GCM_SHA384
    });
    Arc::new(provider)
}

/// A client that believes every server, keeps the tickets it is given and sends early data where one allows it.
///
/// # Errors
/// The provider refuses the versions or the secret.
pub fn client(
    shown: &Shown,
    versions: &[&'static SupportedProtocolVersion],
) -> io::Result<Arc<ClientConfig>> {
    let resolver = Resolver { key: shown.certified()?, raw: shown.raw, present: shown.present };
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible { raw: shown.raw }))
        .with_client_cert_resolver(Arc::new(resolver));
    config.resumption = Resumption::in_memory_sessions(8);
    config.enable_early_data = true;
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// A server with the key of `seed` that believes every client and gives tickets that allow early data.
///
/// # Errors
/// The provider refuses the secret.
pub fn server(seed: &Seed) -> io::Result<Arc<ServerConfig>> {
    let resolver = AlwaysResolvesServerRawPublicKeys::new(Shown::own(seed).certified()?);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(TLS13)
        .map_err(io::Error::other)?
        .with_client_cert_verifier(Arc::new(Gullible { raw: true }))
        .with_cert_resolver(Arc::new(resolver));
    config.session_storage = ServerSessionMemoryCache::new(8);
    config.send_tls13_tickets = 2;
    config.max_early_data_size = EARLY_MAX;
    Ok(Arc::new(config))
}

struct Resolver {
    key: Arc<CertifiedKey>,
    raw: bool,
    present: bool,
}

impl core::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Resolver")
    }
}

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.present.then(|| self.key.clone())
    }

    fn only_raw_public_keys(&self) -> bool {
        self.raw
    }

    fn has_certs(&self) -> bool {
        self.present
    }
}

/// Believes every other side.
#[derive(Debug)]
struct Gullible {
    raw: bool,
}

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw
    }
}

impl ClientCertVerifier for Gullible {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw
    }
}
