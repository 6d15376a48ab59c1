//! A body of protobuf as one of JSON: of a watch a line for each event, of a refusal its Status.
//!
//! A watch is a sequence of frames: four bytes of length, most significant first, and a `WatchEvent`
//! (apimachinery, `pkg/runtime/serializer/protobuf`, `LengthDelimitedFramer`). The object in it has an
//! envelope of its own: four bytes `k8s\0` and an `Unknown`.

use super::messages::{Envelope, Job, Object, Pod, Refusal, WatchEvent};
use bytes::{Bytes, BytesMut};
use futures_util::{TryStreamExt as _, stream};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use prost::Message as _;
use serde::Serialize;
use tokio_util::codec::{Decoder as _, LengthDelimitedCodec};
use tower::BoxError;

/// What an object in protobuf begins with.
const MAGIC: &[u8] = b"k8s\0";
/// The longest frame that is taken: ten times what etcd stores of one object.
const LONGEST: usize = 16 * 1024 * 1024;

/// Why a frame cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    /// The bytes are no message.
    #[error("a watch in protobuf has a message that cannot be read")]
    Message(#[from] prost::DecodeError),
    /// There is no envelope.
    #[error("a watch in protobuf has an object without its envelope")]
    Envelope,
    /// Nobody asked for this.
    #[error("a watch in protobuf has an object of kind {kind}, which is not known here")]
    Kind { kind: String },
    /// It cannot be written as JSON.
    #[error("an object of a watch cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// The lines of a watch.
pub(super) fn of<B>(body: B) -> UnsyncBoxBody<Bytes, BoxError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let frames = LengthDelimitedCodec::builder().max_frame_length(LONGEST).new_codec();
    let data = Box::pin(body.into_data_stream().map_err(Into::into));
    let lines = stream::try_unfold((data, frames, BytesMut::new()), |state| async move {
        let (mut data, mut frames, mut kept) = state;
        loop {
            let mut lines = Vec::new();
            while let Some(frame) = frames.decode(&mut kept)? {
                line(&frame, &mut lines)?;
            }
            if !lines.is_empty() {
                let lines = Frame::data(Bytes::from(lines));
                return Ok::<_, BoxError>(Some((lines, (data, frames, kept))));
            }
            match data.try_next().await? {
                Some(bytes) => kept.extend_from_slice(&bytes),
                // What is left is the beginning of a frame: it comes again with the next watch.
                None => return Ok(None),
            }
        }
    });
    StreamBody::new(lines).boxed_unsync()
}

/// The Status of a request that was refused.
pub(super) async fn of_refusal<B>(body: B) -> Result<UnsyncBoxBody<Bytes, BoxError>, BoxError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
    let mut json = Vec::new();
    object(&bytes, &mut json)?;
    Ok(Full::from(json).map_err(BoxError::from).boxed_unsync())
}

/// Adds the line of one event.
pub(super) fn line(frame: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
    let WatchEvent { kind, object: raw } = WatchEvent::decode(frame)?;
    out.extend_from_slice(b"{\"type\":");
    write(out, &kind)?;
    out.extend_from_slice(b",\"object\":");
    object(&raw.unwrap_or_default().raw, out)?;
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Adds an object in its envelope.
fn object(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
    let bytes = bytes.strip_prefix(MAGIC).ok_or(FrameError::Envelope)?;
    let Envelope { kind, raw } = Envelope::decode(bytes)?;
    let kind = kind.unwrap_or_default();
    match kind.kind.as_str() {
        "Pod" => {
            let Pod { metadata, spec, status } = Pod::decode(raw.as_slice())?;
            write(out, &Object { kind, metadata: metadata.unwrap_or_default(), spec, status })
        }
        "Job" => {
            let Job { metadata, spec, status } = Job::decode(raw.as_slice())?;
            write(out, &Object { kind, metadata: metadata.unwrap_or_default(), spec, status })
        }
        "Status" => write(out, &Refusal::decode(raw.as_slice())?),
        _ => Err(FrameError::Kind { kind: kind.kind }),
    }
}

fn write(out: &mut Vec<u8>, object: &impl Serialize) -> Result<(), FrameError> {
    Ok(serde_json::to_writer(out, object)?)
}
