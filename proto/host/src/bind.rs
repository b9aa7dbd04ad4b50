//! Why an address cannot be listened at, in words that say what to do.

use std::io::{Error, ErrorKind};

/// The system's reason, with the next step where there is one.
pub fn cannot_bind(error: &Error) -> String {
    let step = match error.kind() {
        ErrorKind::AddrInUse => "; another process listens there: stop it, or configure another port",
        ErrorKind::AddrNotAvailable => "; this machine has no such address: configure one that it has",
        ErrorKind::PermissionDenied => "; ports below 1024 need a privilege: configure another port",
        _ => "",
    };
    format!("cannot be bound; {error}{step}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_comes_with_what_to_do_about_it() {
        let said = |kind: ErrorKind| cannot_bind(&kind.into());
        assert!(said(ErrorKind::AddrInUse).ends_with("stop it, or configure another port"));
        assert!(said(ErrorKind::AddrNotAvailable).contains("no such address"));
        assert!(said(ErrorKind::PermissionDenied).contains("below 1024"));
        assert_eq!(said(ErrorKind::NotFound), "cannot be bound; entity not found");
    }
}
