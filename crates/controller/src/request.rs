//! What lies between the controller and the API: every request is named and counted, every write
//! passes the leader's fence, and the rate is kept if one was asked for.
//!
//! Owns: the layer around the client's transport, so that no caller can forget any of this. Must not:
//! retry (the client does), or look into bodies.

mod call;
mod layer;
mod rate;

pub use call::Call;
pub use layer::{ApiLayer, ApiService, refused_by_fence};
pub use rate::TokenBucket;
