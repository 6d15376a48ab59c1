//! What lies between the controller and the API: every request is named and counted, every write
//! passes the leader's fence, and the rate is kept if one was asked for. Watches of pods and Jobs come in
//! protobuf, and leave this room as JSON.
//!
//! Owns: the client's transport and the layer around it, so that no caller can forget any of this.
//! Must not: send a request again (whoever sent it decides), or look into other bodies.

mod call;
mod layer;
mod protobuf;
mod rate;
mod transport;

pub use call::Call;
pub use layer::{ApiLayer, ApiService, refused_by_fence};
pub use rate::TokenBucket;
pub use transport::client;
