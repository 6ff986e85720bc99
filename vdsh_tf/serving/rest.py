"""TF Serving's REST protocol."""

import base64
import binascii
import http.cookiejar
import json
import ssl

import numpy as np
import requests
import requests.adapters
import urllib3

from vdsh_tf.serving import errors

_TRANSIENT = (408, 429, 500, 502, 503, 504)
# Idle connections that are kept alive, one for each of so many threads.
_MOST_IDLE = 128
_KINDS = {"codes": np.uint8, "embedding": np.float32, "fingerprint": np.str_}


class _Adapter(requests.adapters.HTTPAdapter):
    """Connections that trust the system's certificates, too."""

    def init_poolmanager(self, *args, **kwargs):
        context = ssl.create_default_context()
        super().init_poolmanager(*args, ssl_context=context, **kwargs)


def _session():
    """A session that nothing changes after this: threads may share it.

    It takes no cookies and nothing from the environment (proxies, .netrc).
    Whether to try again is decided above, for REST and gRPC alike.
    """
    session = requests.Session()
    session.trust_env = False
    session.headers["Accept-Encoding"] = "identity"
    session.cookies.set_policy(
        http.cookiejar.DefaultCookiePolicy(allowed_domains=[])
    )
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(pool_maxsize=_MOST_IDLE, max_retries=0))
    return session


class Transport:
    """Requests to `scheme://address`, from a pool of connections."""

    def __init__(self, scheme, address, model, version, timeout):
        self._session = _session()
        self._model = model
        self._timeout = timeout
        self._url = f"{scheme}://{address}/v1/models/{model}"
        if version is not None:
            self._url += f"/versions/{version}"

    def close(self):
        self._session.close()

    def signatures(self):
        response = self._request("GET", "/metadata")
        try:
            found = response["metadata"]["signature_def"]["signature_def"]
            return {
                name: errors.Signature(
                    _shapes(signature.get("inputs", {})),
                    _shapes(signature.get("outputs", {})),
                )
                for name, signature in found.items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _nonsense(response) from error

    def predict(self, signature, name, value, output):
        body = {"signature_name": signature, "inputs": {name: value.tolist()}}
        response = self._request("POST", ":predict", body)
        try:
            found = response["outputs"]
            # An output that is the only one comes without its name.
            found = found[output] if isinstance(found, dict) else found
            return _array(found, output)
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise _nonsense(response) from error

    def _request(self, method, action, body=None):
        try:
            response = self._session.request(
                method,
                self._url + action,
                json=body,
                # Connecting and waiting share the time.
                timeout=urllib3.Timeout(total=self._timeout),
                allow_redirects=False,
            )
        except (OSError, urllib3.exceptions.HTTPError) as error:
            cause = _root(error)
            raise errors.Transient(
                f"{type(cause).__name__}: {cause}"
            ) from error
        return self._content(response.status_code, response.content)

    def _content(self, status, text):
        shown = f"HTTP {status}: {text[:500].decode('utf-8', 'replace')}"
        if status in _TRANSIENT:
            raise errors.Transient(shown)
        if status == 404:
            raise errors.not_found(self._model, shown)
        if status != 200:
            raise errors.refused(shown)
        try:
            return json.loads(text)
        except ValueError as error:
            raise _nonsense(text) from error


def _root(error):
    """The operating system's error below those of the libraries."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _shapes(tensors):
    return {
        name: tuple(int(dim["size"]) for dim in info["tensor_shape"]["dim"])
        for name, info in tensors.items()
    }


def _array(values, output):
    if output == "codes_bytes":
        rows = [base64.b64decode(v["b64"], validate=True) for v in values]
        return np.stack([np.frombuffer(row, np.uint8) for row in rows])
    return np.asarray(values).astype(_KINDS[output])


def _nonsense(response):
    return errors.ServingError(
        "The server must respond as TF Serving does. Received: "
        f"{str(response)[:300]!r}. Is it a TF Serving REST port?"
    )
