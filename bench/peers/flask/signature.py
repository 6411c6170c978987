"""Whether a delivery was signed with the secret, with the standard library alone."""

import hashlib
import hmac
import time

TOLERANCE = 300


def is_valid(body: bytes, header: str | None, secret: str) -> bool:
    """Reads `t=<unix seconds>,v1=<hex>[,v1=<hex>...]`, which signs the time, a dot and the body."""
    if not header:
        return False
    timestamp, signatures = None, []
    for item in header.split(","):
        name, _, value = item.strip().partition("=")
        if name == "t":
            timestamp = value
        elif name == "v1":
            signatures.append(value)
    if timestamp is None or not timestamp.isdigit() or abs(time.time() - int(timestamp)) > TOLERANCE:
        return False
    expected = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return any(hmac.compare_digest(expected.encode(), signature.encode()) for signature in signatures)
