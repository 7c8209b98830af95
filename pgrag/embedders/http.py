"""Any endpoint that speaks the OpenAI ``/embeddings`` protocol.

Text leaves the machine here, so the caller is told where it goes (``processor``) and nothing is left to
chance: no redirects, no proxy or credentials from the environment, no plain http beyond this machine,
and an answer is believed only after its model, count, order, dimension and numbers were checked.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import secrets
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from pgrag.embedders import unit_vector
from pgrag.errors import EmbeddingError
from pgrag.protocols import EmbeddingSpace

try:
    import httpx
except ImportError:
    raise EmbeddingError(
        "the package httpx is not installed", hint="pip install 'pgrag-postgres[http]'", code="RG413"
    ) from None

_MAX_ANSWER = 256 * 1024 * 1024
_LONGEST_PAUSE = 30.0


class HttpEmbedder:
    """Vectors from an endpoint, scaled to length one.

    ``deadline`` bounds one batch with all its retries, in seconds; ``timeout`` one attempt's silence.
    ``reported_model`` is the name that the endpoint answers with, where that is not ``model``.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        dimension: int,
        model_revision: str = "unstated",
        reported_model: str | None = None,
        space: str | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        api_key: str | None = None,
        api_key_env: str | None = None,
        processor: str | None = None,
        batch_size: int = 64,
        retries: int = 4,
        timeout: float = 30.0,
        deadline: float = 120.0,
        allow_insecure: bool = False,
    ) -> None:
        url = _checked_url(base_url, allow_insecure)
        for label, value, lowest in (
            ("dimension", dimension, 1),
            ("batch_size", batch_size, 1),
            ("retries", retries, 0),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
                _refuse(f"{label} must be a whole number, at least {lowest}, not {value!r}", "correct it")
        self.processor = processor or url.host
        self.space = EmbeddingSpace(
            space=space or f"{model}-{dimension}",
            model=model,
            model_revision=model_revision,
            dimension=dimension,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
        )
        self._url = f"{str(url).rstrip('/')}/embeddings"
        self._reported_model = reported_model or model
        self._batch_size = batch_size
        self._retries = retries
        self._timeout = timeout
        self._deadline = deadline
        # trust_env would let a proxy variable or a netrc entry decide where the text and a key go.
        self._client = httpx.Client(
            headers=_authorization(api_key, api_key_env), trust_env=False, follow_redirects=False
        )

    def __repr__(self) -> str:
        return f"HttpEmbedder({self._url!r}, model={self.space.model!r}, dimension={self.space.dimension})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept open between calls."""
        self._client.close()

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text, sent in batches."""
        rows = np.zeros((len(texts), self.space.dimension), dtype=np.float32)
        for first in range(0, len(texts), self._batch_size):
            batch = texts[first : first + self._batch_size]
            rows[first : first + len(batch)] = self._embed(
                [self.space.document_prefix + text for text in batch]
            )
        return rows

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of one question."""
        row: NDArray[np.float32] = self._embed([self.space.query_prefix + text])[0]
        return row

    # -- Sending -------------------------------------------------------------------------------------

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        payload = {"model": self.space.model, "input": texts, "encoding_format": "float"}
        stop = time.monotonic() + self._deadline
        for attempt in range(self._retries + 1):
            try:
                return self._vectors(self._send(payload, stop), len(texts))
            except _Again as again:
                problem, pause = again.problem, again.pause
            # Between half and all of the pause: equal pauses would bring all clients back at once.
            backoff = min(0.5 * 2**attempt, _LONGEST_PAUSE) * (0.5 + secrets.randbelow(501) / 1000)
            pause = max(backoff, pause)
            if attempt == self._retries or time.monotonic() + pause >= stop:
                break
            time.sleep(pause)
        self._fail(
            f"{problem}; gave up (attempts: {attempt + 1})",
            f"at most {self._retries} retries within {self._deadline:g} s: see retries, timeout and deadline",
        )

    def _send(self, payload: dict[str, Any], stop: float) -> bytes:
        wait = max(min(self._timeout, stop - time.monotonic()), 0.001)
        try:
            with self._client.stream("POST", self._url, json=payload, timeout=wait) as response:
                self._check_status(response)
                content = bytearray()
                for part in response.iter_bytes():
                    content += part
                    if len(content) > _MAX_ANSWER:
                        self._fail("the answer is unreasonably large", "use a smaller batch_size")
                    # A timeout is about silence; an answer that trickles has to end as well.
                    if time.monotonic() > stop:
                        raise _Again("the answer did not end in time")
                return bytes(content)
        except httpx.TimeoutException:
            raise _Again(f"no answer within {wait:.3g} s") from None
        except httpx.RequestError as error:
            # Not chained: the request, with its key, hangs on to httpx's exceptions.
            raise _Again(f"the connection failed ({type(error).__name__})") from None

    def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if status == 200:
            return
        if status in (408, 429) or status >= 500:
            raise _Again(f"status {status}", _retry_after(response.headers.get("retry-after")))
        # The body is left out: endpoints are known to repeat keys and texts in it.
        if 300 <= status < 400:
            self._fail(f"a redirect (status {status}), which is not followed", "give the final base URL")
        if status in (401, 403):
            self._fail(f"status {status}", "check the API key and what it may use")
        self._fail(f"status {status}", "check the base URL, the model name and the size of the texts")

    # -- Checking ------------------------------------------------------------------------------------

    def _vectors(self, content: bytes, count: int) -> NDArray[np.float32]:
        try:
            answer = json.loads(content)
            model = answer.get("model")
            rows = {item["index"]: item["embedding"] for item in answer["data"]}
            given = len(answer["data"])
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            self._fail("the answer is not of the OpenAI embeddings format", "check the base URL")
        if model != self._reported_model:
            self._fail(
                f"the answer is from model {str(model)[:100]!r}, not {self._reported_model!r}",
                "correct model, or state the name that the endpoint answers with as reported_model",
                "RG305",
            )
        # index True would pass for 1, and 0.0 for 0.
        if given != count or any(type(index) is not int for index in rows) or set(rows) != set(range(count)):
            self._fail(
                f"the answer has {given} vectors for {count} texts, or their numbering is broken",
                "give an endpoint that keeps to the protocol",
            )
        return np.stack([self._unit(rows[index]) for index in range(count)])

    def _unit(self, values: Any) -> NDArray[np.float32]:
        if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
            self._fail("a vector is not a list of numbers", "give an endpoint that keeps to the protocol")
        if len(values) != self.space.dimension:
            self._fail(
                f"a vector has {len(values)} dimensions, not {self.space.dimension}",
                "correct dimension, and use another space for another model",
                "RG305",
            )
        try:
            vector = np.array(values, dtype=np.float64)
        except OverflowError:  # an integer of hundreds of digits
            vector = np.array([np.inf])
        if not np.isfinite(vector).all():
            self._fail(
                "a vector has numbers that are not finite", "look for a fault of the endpoint or its model"
            )
        return unit_vector(vector)

    def _fail(self, fact: str, hint: str, code: str = "RG413") -> NoReturn:
        raise EmbeddingError(f"embedding endpoint {self._url}: {fact}", hint=hint, code=code)


class _Again(Exception):
    """An attempt failed in a way that another may not."""

    def __init__(self, problem: str, pause: float = 0.0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.pause = pause


def _refuse(fact: str, hint: str) -> NoReturn:
    raise EmbeddingError(fact, hint=hint, code="RG413")


def _checked_url(base_url: str, allow_insecure: bool) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        _refuse("the base URL of an embedding endpoint must be http or https", "for example https://host/v1")
    if url.userinfo or url.query or url.fragment:
        # Nor is the URL shown: what is wrong with it may be a password.
        _refuse(
            "the base URL must not carry a password, a query or a fragment", "pass the key as api_key_env"
        )
    if url.scheme == "http" and not allow_insecure and not _is_loopback(url.host):
        _refuse(
            f"plain http to {url.host} would send texts and the key unprotected",
            "use https, or allow_insecure=True inside a trusted network",
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _authorization(api_key: str | None, api_key_env: str | None) -> dict[str, str]:
    if api_key is not None and api_key_env is not None:
        _refuse("both api_key and api_key_env are given", "give one of them")
    if api_key_env is not None:
        api_key = os.environ.get(api_key_env)
        if not api_key:
            _refuse(f"the environment variable {api_key_env} is not set", "set it to the API key")
    if api_key is None:
        return {}
    # Checked here, because the HTTP library would quote a malformed header, key and all.
    if not (api_key.isascii() and api_key.isprintable() and api_key and " " not in api_key):
        _refuse("the API key has characters that no header can carry", "look for a line end or a space in it")
    return {"Authorization": f"Bearer {api_key}"}


def _retry_after(value: str | None) -> float:
    """Seconds that the endpoint asks to wait, given as seconds or as a date."""
    if value is None:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return seconds if math.isfinite(seconds) else 0.0
