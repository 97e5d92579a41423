"""Addresses, keys and passwords, found by form or by a keyword."""

from tests.support.rows import each_row
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer

SHADOW = Sanitizer(Mode.SHADOW)


def found_in(text: str) -> list[tuple[str, str]]:
    return [(each.label, text[each.start : each.end]) for each in SHADOW.findings(text)]


# E-mail addresses


@each_row("address", [
    "ann@example.com", "Ann.Lee@Example.COM", "ann+news@mail.example.co.uk", "a@b.io",
    "ann_lee-3@example-site.org", "o'neil@example.ie", "x%y@example.com", "1234567@example.com",
    "4111111111111111@example.com", "ann@xn--mller-kva.de", "ann@example.xn--p1ai",
    "jörg@müller.de", "иван@пример.рф", "用户@例子.公司",
    '"ann lee"@example.com',
    "ann%40example.com",
    "ａｎｎ＠ｅｘａｍｐｌｅ．ｃｏｍ", "𝐚𝐧𝐧@example.com",
    "ann [at] example [dot] com", "ann(at)example.com",
])  # fmt: skip
@each_row("frame", ["{}", "Write to <{}>.", "mailto:{}", "is {}, or", "({})"])
def test_email_address_is_found_in_any_spelling(address: str, frame: str) -> None:
    assert found_in(frame.format(address)) == [("EMAIL", address)]


def test_email_address_ends_at_another_script() -> None:
    assert found_in("邮箱ann@example.cn请联系") == [("EMAIL", "ann@example.cn")]


@each_row("text", [
    "ann@example", "@example.com", "ann@", "ann @ example.com", "logo@2x.png", "lodash@4.17.21",
    "@media print", "@decorator.method", "user@localhost", "a@b@c", "5 apples @ 3.50", "ann@-.com",
    "ann@example.c", "ann@example.123", "look at (at) this", "meet me at example dot com",
])  # fmt: skip
def test_other_at_signs_are_not_email_addresses(text: str) -> None:
    assert found_in(text) == []


# IP addresses


@each_row(("text", "address"), [
    ("192.168.0.1", "192.168.0.1"), ("from 10.0.0.5:8080 on", "10.0.0.5"), ("8.8.8.8.", "8.8.8.8"),
    ("10.20.0.0/16", "10.20.0.0"), ("http://203.0.113.9/path", "203.0.113.9"),
    ("[203.0.113.9]", "203.0.113.9"), ("地址203.0.113.9。", "203.0.113.9"),
    ("host-203.0.113.9", "203.0.113.9"), ("10.1.2.3 myhost", "10.1.2.3"),
    ("2001:db8::1", "2001:db8::1"),
    ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "2001:0db8:85a3:0000:0000:8a2e:0370:7334"),
    ("ping fe80::1ff:fe23:4567:890a.", "fe80::1ff:fe23:4567:890a"),
    ("[2001:db8::8a2e:370:7334]:443", "2001:db8::8a2e:370:7334"),
    ("::ffff:203.0.113.9", "::ffff:203.0.113.9"),
    ("2001:DB8:0:0:8:800:200C:417A", "2001:DB8:0:0:8:800:200C:417A"),
    ("１９２．１６８．０．１", "１９２．１６８．０．１"),
])  # fmt: skip
def test_ip_address_is_found(text: str, address: str) -> None:
    assert found_in(text) == [("IP_ADDRESS", address)]


@each_row("text", [
    "version 1.2.3.4", "Version: 1.2.3.4", "v1.2.3.4", "v 1.2.3.4", "release 10.4.1.2",
    "see section 3.1.2.4 below", "§ 1.2.3.4", "Kapitel 1.2.3.4", "firmware is 4.4.1.9",
    "zlib-1.2.3.4", "tyrosine hydroxylase (EC 1.14.16.2)", "1.2.3.4 Scope of work",
    "## 2.1.4.3 Results", "1.2.3.4.5", "1.2.3", "256.1.1.1", "01.02.03.04", "127.0.0.1",
    "255.255.255.0", "0.0.0.0", "12:30:45", "std::vector", "face::bed", "a::1", "::1", "::1234",
    "aa:bb:cc:dd:ee:ff", "1:2:3", "Genesis 1:1-2:3",
])  # fmt: skip
def test_versions_and_times_are_not_ip_addresses(text: str) -> None:
    assert found_in(text) == []


# API keys

MIXED = "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7b"
"""Forty characters as keys are made of; none of these keys opens anything."""
HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
UPPER = "Q7RS9TU1VW3XY5ZA"


@each_row("key", [
    f"sk-{MIXED}", f"sk-proj-{MIXED}_{MIXED}", f"sk-ant-api03-{MIXED}-{MIXED}", f"AKIA{UPPER}",
    f"ASIA{UPPER}", f"ghp_{MIXED[:36]}", f"gho_{MIXED[:36]}", f"github_pat_{MIXED[:22]}_{MIXED}",
    f"glpat-{MIXED[:20]}", f"xoxb-123456789012-{MIXED[:24]}", f"xoxp-123456789012-{MIXED[:24]}",
    f"AIza{MIXED[:35]}", f"ya29.{MIXED}", f"sk_live_{MIXED[:24]}", f"rk_test_{MIXED[:24]}",
    f"SK{HEX}", f"SG.{MIXED[:22]}.{MIXED}", f"npm_{MIXED[:36]}", f"hf_{MIXED[:34]}",
    f"dop_v1_{HEX}{HEX}", f"shpat_{HEX}", f"key-{HEX}", f"dapi{HEX}", f"gsk_{MIXED}",
    f"123456789:AA{MIXED[:33]}", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{MIXED}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{MIXED}\n{MIXED}==\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{MIXED}\n-----END OPENSSH PRIVATE KEY-----",
])  # fmt: skip
@each_row("frame", ["{}", "Use {} here.", "'{}'", "密钥{}。"])
def test_key_with_a_known_prefix_is_found(key: str, frame: str) -> None:
    assert found_in(frame.format(key)) == [("API_KEY", key)]


@each_row("frame", [
    "api_key = '{}'", 'API_KEY="{}"', "apikey: {}", '"client_secret": "{}"', "access-token={}",
    "X-Api-Key: {}", "Authorization: Bearer {}", "Authorization: token {}", "authToken => '{}'",
    "secret := {}", "AWS_SECRET_ACCESS_KEY={}", "curl -H 'Bearer {}'",
])  # fmt: skip
@each_row("value", [MIXED, HEX, "9f8a7b6c-5d4e-3f2a-1b0c-9d8e7f6a5b4c"])
def test_random_value_assigned_to_a_key_is_found(frame: str, value: str) -> None:
    assert found_in(frame.format(value)) == [("API_KEY", value)]


@each_row("text", [
    "sk-fading-circle-with-long-name", "desk-lamp-and-other-furniture-1", "AKIA", f"AKIA{UPPER}0",
    "ghp_short", "the key: something-quite-long-here", "Turkey: 1234567890abcdefghij",
    "token = next_token_from_the_stream()", "api_key = settings.providers.openai.api_key",
    "secret: aaaaaaaaaaaaaaaaaaaaaaaa", "api_key = YOUR_API_KEY_GOES_HERE",
    "The secret: nobody had ever been there before.", "bearer of bad news, again and again",
    "commit 0f1e2d3c4b5a69788796a5b4c3d2e1f000112233",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "eyJ is how they begin",
    "xoxo-hugs-and-kisses", "primary key = customer_identifier_2",
])  # fmt: skip
def test_words_names_and_code_are_not_keys(text: str) -> None:
    assert found_in(text) == []


def test_private_key_across_two_blocks_is_found_in_both() -> None:
    first = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n{MIXED}"
    second = f"Text before.\n{MIXED}\n{MIXED}\n-----END RSA PRIVATE KEY-----\nText after."
    assert found_in(first) == [("API_KEY", first)]
    assert found_in(second) == [("API_KEY", f"{MIXED}\n{MIXED}\n-----END RSA PRIVATE KEY-----")]


# Passwords


@each_row(("text", "password"), [
    ("password: hunter2", "hunter2"), ("Password = hunter2.", "hunter2"),
    ("PASSWORD=hunter2!", "hunter2!"), ('"password": "correct horse"', "correct horse"),
    ("db_password='pa55'", "pa55"), ("Passwort: geheim", "geheim"), ("Kennwort: geheim", "geheim"),
    ("mot de passe : secret", "secret"), ("contraseña: secreto", "secreto"),
    ("senha: segredo", "segredo"), ("пароль: секрет", "секрет"), ("密码：abc123", "abc123"),
    ("パスワード：abc123", "abc123"), ("pwd=abc&user=ann", "abc"),
    ("Server=db;Password=abc;Database=x", "abc"), ("?user=ann&pass=abc", "abc"),
    ("mysql --password hunter2 -u ann", "hunter2"), ("<password>hunter2</password>", "hunter2"),
    ("The password is Tr0ub4dor&3, she said.", "Tr0ub4dor&3"),
    ("Das Passwort lautet „Sesam öffne dich“.", "Sesam öffne dich"),
    ("https://ann:hunter2@example.com/x", "hunter2"),
    ("postgres://ann:hun:ter2@db.example.com", "hun:ter2"),
    ("redis://:hunter2@cache.example.com", "hunter2"),
    ("password: ann@example.com", "ann@example.com"),
    ("password: 4111111111111111", "4111111111111111"),
])  # fmt: skip
def test_password_is_found_after_a_keyword(text: str, password: str) -> None:
    assert found_in(text) == [("PASSWORD", password)]


@each_row("text", [
    "password: required", "password: str", "password: the word that opens the door",
    "password = getpass()", "password = os.environ['DB_PASSWORD']", "password = settings.password",
    "password: ${DB_PASSWORD}", "password: {{ vault_password }}", "password: ********",
    "zipfile.open(name, pwd=pwd)", "password:", "password:\nhunter", "The password is required.",
    "The password was lost.", "Forgot your password?", "a password of twelve characters",
    "Pass: 45 %", "https://example.com/a:b@c", "https://example.com:8080/x",
    "he passed: nobody saw", "--password --verbose",
])  # fmt: skip
def test_word_for_passwords_alone_is_not_a_password(text: str) -> None:
    assert found_in(text) == []
