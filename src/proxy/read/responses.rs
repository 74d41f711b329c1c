//! stub
pub(super) fn read(
    _: agentspine_gate::turn::Host,
    _: &http::HeaderMap,
    _: &str,
) -> Result<super::Asked, super::Unreadable> {
    Err(super::Unreadable::NotUtf8(0))
}
