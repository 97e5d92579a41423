"""A visit to the page, with its traffic and the errors of the browser."""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, Response, expect

EXPECTED = "Failed to load resource"
"""The browser's own message for an error status, which the page handles."""

LISTENING = """
window.heard = [];
const ask = window.fetch;
window.fetch = async (...asked) => {
    const reply = await ask(...asked);
    const entry = {url: reply.url, text: ''};
    window.heard.push(entry);
    const pieces = reply.clone().body.pipeThrough(new TextDecoderStream()).getReader();
    const listen = ({value, done}) => {
        if (done) return null;
        entry.text += value;
        return pieces.read().then(listen);
    };
    pieces.read().then(listen).catch(() => {});
    return reply;
};
"""
"""Records every received byte, because the browser drops interrupted replies."""


@dataclass(slots=True)
class Visit:
    """An open page and its history."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)
    failures_expected: bool = False
    other_hosts: frozenset[str] = frozenset()
    """Further hosts that the visit may contact."""

    def find(self, selector: str) -> Locator:
        """Return the element of a selector."""
        return self.page.locator(selector)

    def open(self, title: str) -> None:
        """Choose a document, and wait until its text is loaded."""
        with self.page.expect_response(lambda reply: "/sentences?" in reply.url):
            self.find("button.document").filter(has_text=title).click()
        expect(self.find("#reading-title")).to_have_text(title)
        expect(self.find("#s0")).to_be_attached()

    def ask(self, question: str) -> None:
        """Retrieve context, and wait until it is shown."""
        self.find("#question").fill(question)
        self.find("#go").click()
        self.settled()

    def settled(self) -> None:
        """Wait until a result is shown and no request is pending."""
        expect(self.find("#panel-context .summary")).to_be_visible()
        expect(self.find("#panel-context[aria-busy]")).to_have_count(0)

    def sign_in(self, token: str) -> None:
        """Sign in with a token, from any view of the page."""
        if not self.find("#view-signin").is_visible():
            self.find("#open-settings").click()
            self.find("#token").fill(token)
            self.find("#token").press("Enter")
        else:
            self.find("#signin-token").fill(token)
            self.find("#signin-token").press("Enter")
        expect(self.find("#caller")).to_contain_text("Token")

    def as_reader(self, name: str) -> None:
        """Ask as a reader from now on."""
        self.find("label.seg").filter(has_text="As a reader").click()
        self.find("#reader").fill(name)
        self.find("#reader").press("Enter")
        expect(self.find("#position .position-head")).to_contain_text(f"of {name}")

    def preview(self, sid: int) -> None:
        """Type a sentence number beside the slider: the page shows it without recording it."""
        self.find("#position-number").fill(str(sid))
        self.find("#position-number").press("Enter")

    def read_to(self, sid: int) -> None:
        """Record a position, and wait until the server has it."""
        self.preview(sid)
        with self.page.expect_response(lambda reply: reply.request.method == "PUT"):
            self.find("#save-position").click()
        expect(self.find("#save-position")).to_be_disabled()

    def bodies(self, part: str) -> list[str]:
        """Return the replies of addresses that contain this text, including interrupted ones."""
        heard = self.page.evaluate("window.heard")
        return [one["text"] for one in heard if part in urlsplit(one["url"]).path]

    def forget(self) -> None:
        """Forget the replies so far."""
        self.page.evaluate("window.heard.length = 0")

    def hosts(self) -> set[str]:
        """Return the hosts that the page has contacted."""
        schemes = ("http", "https", "ws", "wss")
        split = [urlsplit(request.url) for request in self.requests]
        return {address.netloc for address in split if address.scheme in schemes}


Visits = Callable[..., Visit]


def begin(browser: Browser, address: str, **context: object) -> Visit:
    """Open the page and record its traffic; animations are off by default."""
    still = {"reduced_motion": "reduce", **context}
    page = browser.new_context(**still).new_page()  # type: ignore[arg-type]
    page.set_default_timeout(20_000)
    page.add_init_script(LISTENING)
    visit = Visit(page, address)

    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            visit.complaints.append(message.text)

    page.on("console", said)
    page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    page.on("request", lambda request: visit.requests.append(request))
    page.on("response", lambda reply: visit.responses.append(reply))
    page.goto(address)
    expect(page.locator("body[data-ready]")).to_be_attached()
    return visit


def end(visit: Visit) -> None:
    """Check a visit: no errors of the browser, and no other host."""
    complaints = [
        line for line in visit.complaints if not (visit.failures_expected and EXPECTED in line)
    ]
    hosts = visit.hosts()
    visit.page.context.close()
    assert complaints == [], complaints
    assert hosts - visit.other_hosts == {urlsplit(visit.address).netloc}
