//! Addresses that peers exchange before they can talk.

use crate::{Gid, RemoteAddr, VerbsError};

/// The address of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// LID of its port; 0 on Ethernet.
    pub lid: u16,
    /// GID of its port.
    pub gid: Gid,
    /// QP number.
    pub qpn: u32,
}

fn array<const N: usize>(bytes: &[u8], what: &str) -> Result<[u8; N], VerbsError> {
    bytes.try_into().map_err(|_| VerbsError::Invalid(format!("{what} takes {N} bytes, got {}", bytes.len())))
}

impl Endpoint {
    /// Encodes the endpoint for [`crate::Provider::publish`].
    pub fn to_bytes(self) -> [u8; 22] {
        let mut out = [0; 22];
        out[..2].copy_from_slice(&self.lid.to_be_bytes());
        out[2..18].copy_from_slice(&self.gid.0);
        out[18..].copy_from_slice(&self.qpn.to_be_bytes());
        out
    }

    /// Decodes the bytes of [`Endpoint::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Endpoint, VerbsError> {
        let b: [u8; 22] = array(bytes, "an endpoint")?;
        let mut gid = [0; 16];
        gid.copy_from_slice(&b[2..18]);
        Ok(Endpoint {
            lid: u16::from_be_bytes([b[0], b[1]]),
            gid: Gid(gid),
            qpn: u32::from_be_bytes([b[18], b[19], b[20], b[21]]),
        })
    }
}

impl RemoteAddr {
    /// Encodes the address for [`crate::Provider::publish`].
    pub fn to_bytes(self) -> [u8; 12] {
        let mut out = [0; 12];
        out[..8].copy_from_slice(&self.addr.to_be_bytes());
        out[8..].copy_from_slice(&self.rkey.to_be_bytes());
        out
    }

    /// Decodes the bytes of [`RemoteAddr::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<RemoteAddr, VerbsError> {
        let b: [u8; 12] = array(bytes, "a remote address")?;
        let mut addr = [0; 8];
        addr.copy_from_slice(&b[..8]);
        Ok(RemoteAddr {
            addr: u64::from_be_bytes(addr),
            rkey: u32::from_be_bytes([b[8], b[9], b[10], b[11]]),
        })
    }
}
