"""Posting JSON to a model's endpoint, for the adapters that do.

Text leaves the machine here, so nothing is left to chance: no redirects, no proxy or credentials from the
environment, no plain http beyond this machine, and bounds on time, attempts and the size of the answer.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import secrets
import time
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, NoReturn, Self

from pgrag.errors import PgragError

try:
    import httpx
except ImportError:
    httpx = None  # type: ignore[assignment]  # said in HttpEndpoint, in the words of the adapter

_LONGEST_PAUSE = 30.0


class HttpEndpoint:
    """What adapters over HTTP share; a subclass says what it is and what it raises.

    ``deadline`` bounds one request with all its retries, in seconds; ``timeout`` one attempt's silence.
    """

    _kind = ""
    """Such as ``embedding``: for messages."""
    _error: tuple[type[PgragError], str]
    """The exception and its code."""
    _most = 256 * 1024 * 1024
    """Bytes that an answer may have."""

    def __init__(
        self,
        base_url: str,
        path: str,
        *,
        api_key: str | None,
        api_key_env: str | None,
        processor: str | None,
        batch_size: int,
        retries: int,
        timeout: float,
        deadline: float,
        allow_insecure: bool,
    ) -> None:
        if httpx is None:
            self._refuse("the package httpx is not installed", "pip install 'pgrag-postgres[http]'")
        if not isinstance(allow_insecure, bool):
            # The text "false" would count as true.
            self._refuse(f"allow_insecure must be true or false, not {allow_insecure!r}", "correct it")
        url = self._checked_url(base_url, allow_insecure)
        self._check_whole("batch_size", batch_size, 1)
        self._check_whole("retries", retries, 0)
        self._check_seconds("timeout", timeout)
        self._check_seconds("deadline", deadline)
        self.processor: str | None = processor or url.host
        self._url = f"{str(url).rstrip('/')}/{path}"
        self._batch_size = batch_size
        self._retries = retries
        self._timeout = timeout
        self._deadline = deadline
        # trust_env would let a proxy variable or a netrc entry decide where the text and a key go.
        self._client = httpx.Client(
            headers=self._authorization(api_key, api_key_env), trust_env=False, follow_redirects=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept open between calls."""
        self._client.close()

    # -- Sending -------------------------------------------------------------------------------------

    def _post(self, payload: dict[str, Any], stop: float | None = None) -> Any:
        """The answer, of which no more is known than that it is JSON; a ValueError where it is not.

        ``stop`` is the ``time.monotonic()`` until which it is tried; left out, ``deadline`` from now.
        """
        stop = time.monotonic() + self._deadline if stop is None else stop
        for attempt in range(self._retries + 1):
            try:
                return json.loads(self._send(payload, stop))
            except RecursionError:
                raise ValueError("nested too deeply") from None
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
                    if len(content) > self._most:
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

    # -- Refusing ------------------------------------------------------------------------------------

    def _fail(self, fact: str, hint: str, code: str | None = None) -> NoReturn:
        self._refuse(f"{self._kind} endpoint {self._url}: {fact}", hint, code)

    def _refuse(self, fact: str, hint: str, code: str | None = None) -> NoReturn:
        kind, usual = self._error
        raise kind(fact, hint=hint, code=code or usual) from None

    def _check_whole(self, label: str, value: object, lowest: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            self._refuse(f"{label} must be a whole number, at least {lowest}, not {value!r}", "correct it")

    def _check_seconds(self, label: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            self._refuse(f"{label} must be a number of seconds, more than 0, not {value!r}", "correct it")

    def _checked_url(self, base_url: str, allow_insecure: bool) -> httpx.URL:
        try:
            url = httpx.URL(base_url)
            url.host  # noqa: B018  decodes a host that begins with xn--, and has errors of its own
        except (httpx.InvalidURL, TypeError, UnicodeError):
            url = httpx.URL("")
        if url.scheme not in ("http", "https") or not url.host:
            self._refuse(
                f"the base URL of {self._kind} endpoints must be http or https", "for example https://host/v1"
            )
        if url.userinfo or url.query or url.fragment:
            # Nor is the URL shown: what is wrong with it may be a password.
            self._refuse(
                "the base URL must not carry a password, a query or a fragment",
                "pass the key as api_key_env",
            )
        if url.scheme == "http" and not allow_insecure and not _is_loopback(url.host):
            self._refuse(
                f"plain http to {url.host} would send texts and the key unprotected",
                "use https, or allow_insecure=True inside a trusted network",
            )
        return url

    def _authorization(self, api_key: str | None, api_key_env: str | None) -> dict[str, str]:
        if api_key is not None and api_key_env is not None:
            self._refuse("both api_key and api_key_env are given", "give one of them")
        if api_key_env is not None:
            api_key = os.environ.get(api_key_env)
            if not api_key:
                self._refuse(f"the environment variable {api_key_env} is not set", "set it to the API key")
        if api_key is None:
            return {}
        # Checked here, because the HTTP library would quote a malformed header, key and all.
        if not isinstance(api_key, str) or not (
            api_key.isascii() and api_key.isprintable() and api_key and " " not in api_key
        ):
            self._refuse(
                "the API key is no text, or has characters that no header can carry",
                "look for a line end or a space in it, and write it in quotes",
            )
        return {"Authorization": f"Bearer {api_key}"}


class _Again(Exception):
    """An attempt failed in a way that another may not."""

    def __init__(self, problem: str, pause: float = 0.0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.pause = pause


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
