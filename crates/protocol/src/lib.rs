//! RESP2 and RESP3: bytes in, frames out. No runtime, no sockets.
