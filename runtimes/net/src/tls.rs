//! TLS 1.3 with Ed25519 raw public keys (RFC 7250): the key is the identity.
//!
//! *What it gives.* Both sides show a raw key and prove it. The dialling side pins the one key it expects; the peer
//! listener pins the roster; the client listener takes any sound key and calls its holder a guest. X.509 is not
//! spoken: a certificate of any kind ends the handshake.
//!
//! *Left out on purpose.* Resumption, tickets and 0-RTT: each would be a second way to be authenticated.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    DistinguishedName, ServerConfig, ServerConnection, SignatureScheme,
};
use synod_crypto::{PublicKey, Seed, check_key};

use crate::{Error, Refusal};

/// The DER in front of a raw Ed25519 key (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The DER in front of an Ed25519 secret (RFC 8410, version 1).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const EXPORTER: &[u8] = b"EXPORTER-synod-hello";

/// Which keys a listener takes.
#[derive(Clone, Debug)]
pub(crate) enum Pins {
    /// These keys.
    Only(BTreeSet<PublicKey>),
    /// Any key that may be registered.
    Anyone,
}

impl Pins {
    /// Whether `key` may come in.
    pub(crate) fn admits(&self, key: &PublicKey) -> bool {
        match self {
            Self::Only(keys) => keys.contains(key),
            Self::Anyone => check_key(key).is_ok(),
        }
    }
}

/// The node's own key and provider; makes connections of both sides.
pub(crate) struct Tls {
    provider: Arc<CryptoProvider>,
    key: Arc<CertifiedKey>,
}

impl Tls {
    /// Wraps the node's secret.
    ///
    /// # Errors
    /// [`Error::Config`] when the crypto provider refuses the key.
    pub(crate) fn new(seed: &Seed) -> Result<Self, Error> {
        let full = aws_lc_rs::default_provider();
        let provider = CryptoProvider {
            cipher_suites: vec![
                aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
                aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            ],
            kx_groups: vec![aws_lc_rs::kx_group::X25519],
            ..full
        };
        let mut secret = PKCS8_PREFIX.to_vec();
        secret.extend_from_slice(seed.expose());
        let signer = aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(secret))
            .map_err(|why| Error::Config(format!("the node's key: {why}")))?;
        let key = CertifiedKey::new(vec![CertificateDer::from(spki(&seed.public()))], signer);
        Ok(Self { provider: Arc::new(provider), key: Arc::new(key) })
    }

    /// The configuration of a listener that takes `pins`.
    ///
    /// # Errors
    /// [`Error::Config`] when TLS 1.3 is missing from the provider.
    pub(crate) fn listener(&self, pins: Pins) -> Result<Arc<ServerConfig>, Error> {
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| Error::Config(why.to_string()))?
            .with_client_cert_verifier(Arc::new(Pinned { pins, provider: self.provider.clone() }))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.key.clone())));
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.max_early_data_size = 0;
        Ok(Arc::new(config))
    }

    /// The configuration of a dial that must meet `expected`.
    ///
    /// # Errors
    /// [`Error::Config`] when TLS 1.3 is missing from the provider.
    pub(crate) fn dial(&self, expected: PublicKey) -> Result<Arc<ClientConfig>, Error> {
        let pins = Pins::Only(BTreeSet::from([expected]));
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| Error::Config(why.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned { pins, provider: self.provider.clone() }))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(self.key.clone())));
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_sni = false;
        config.enable_early_data = false;
        Ok(Arc::new(config))
    }
}

/// Starts the dialling side of a connection.
///
/// # Errors
/// [`Error::Config`] when the configuration is refused.
pub(crate) fn client(config: Arc<ClientConfig>) -> Result<rustls::Connection, Error> {
    let name = ServerName::try_from("synod").map_err(|why| Error::Config(why.to_string()))?;
    let mut tls = ClientConnection::new(config, name).map_err(|why| Error::Config(why.to_string()))?;
    tls.set_buffer_limit(None);
    Ok(tls.into())
}

/// Starts the accepting side of a connection.
///
/// # Errors
/// [`Error::Config`] when the configuration is refused.
pub(crate) fn server(config: Arc<ServerConfig>) -> Result<rustls::Connection, Error> {
    let mut tls = ServerConnection::new(config).map_err(|why| Error::Config(why.to_string()))?;
    tls.set_buffer_limit(None);
    Ok(tls.into())
}

/// The key the other side proved, once the handshake is complete.
pub(crate) fn peer_key(tls: &rustls::Connection) -> Option<PublicKey> {
    tls.peer_certificates()?.first().and_then(|raw| key_of(raw))
}

/// Bytes both sides derive and nobody else can; the Hello is signed over them.
pub(crate) fn exporter(tls: &rustls::Connection) -> Option<[u8; 32]> {
    tls.export_keying_material([0; 32], EXPORTER, None).ok()
}

/// The code under which an error of the TLS library is reported.
pub(crate) fn named(error: &rustls::Error) -> Error {
    match error {
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::AccessDenied | AlertDescription::CertificateRequired => {
                Error::refused_by_peer(Refusal::UnknownKey, format!("{alert:?}"))
            }
            _ => Error::refused_by_peer(Refusal::TlsAlert, format!("{alert:?}")),
        },
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            Error::refuse(Refusal::UnknownKey, "the key shown is not pinned")
        }
        rustls::Error::NoCertificatesPresented => Error::refuse(Refusal::UnknownKey, "no key was shown"),
        other => Error::refuse(Refusal::TlsAlert, other.to_string()),
    }
}

fn spki(key: &PublicKey) -> Vec<u8> {
    [&SPKI_PREFIX[..], &key.0].concat()
}

fn key_of(raw: &[u8]) -> Option<PublicKey> {
    raw.strip_prefix(&SPKI_PREFIX).and_then(|key| key.try_into().ok()).map(PublicKey)
}

/// Takes raw keys that are pinned, nothing else.
#[derive(Debug)]
struct Pinned {
    pins: Pins,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        match key_of(shown) {
            Some(key) if self.pins.admits(&key) => Ok(()),
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(
            message,
            &key,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }
}

fn no_tls12() -> rustls::Error {
    rustls::PeerIncompatible::Tls12NotOffered.into()
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
