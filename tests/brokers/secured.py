"""A broker with TLS, log-ins and ACLs, on the local Java: who may do nothing may do nothing.

Its listeners are one for each way to connect. Certificates are made for the run; nothing of it outlives the folder.
"""

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.brokers import jvm

ADMIN, PASSWORD = "admin", "admin-secret"
PLAIN_USER, PLAIN_PASSWORD = "plain-user", "plain-secret"
KEY_PASSWORD = "key-secret"  # noqa: S105
PROTOCOLS = {
    "LOGIN": "SASL_SSL",
    "CERTIFICATE": "SSL",
    "CLEAR": "SASL_PLAINTEXT",
    "STRANGER": "SASL_SSL",
    "SHORT": "SASL_SSL",
    "TOKEN": "SASL_SSL",
    "CONTROLLER": "PLAINTEXT",
}
"""Listeners: log-in under TLS, client certificates, log-in in clear text, the certificate of another host, one on which
a log-in counts for a few seconds only, and one like it for tokens, which need no signature."""

RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


@dataclass(frozen=True)
class Secured:
    """Where the broker is, by listener, and the files of certificates that a client needs to get in."""

    servers: dict[str, str]
    authority: str  # that signed all others
    stranger: str  # that signed none of them
    certificate: str  # of ``CN=worker``
    key: str  # encrypted with `KEY_PASSWORD`
    client: dict[str, str] = field(init=False)
    """librdkafka's configuration of the administrator."""

    def __post_init__(self):
        login = {"sasl.mechanism": "PLAIN", "sasl.username": ADMIN, "sasl.password": PASSWORD}
        object.__setattr__(self, "client", {"security.protocol": "SASL_PLAINTEXT", **login})

    @classmethod
    def parse(cls, text):
        """Read what `running` yields."""
        return cls(**json.loads(text))

    @property
    def admin(self):
        return AdminClient({"bootstrap.servers": self.servers["CLEAR"], **self.client})

    def add_user(self, user, password, mechanism="SCRAM-SHA-512"):
        """Give a user a password; it may do nothing yet."""
        kind = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], 4096)
        change = UserScramCredentialUpsertion(user, kind, password.encode())
        admin = self.admin
        admin.alter_user_scram_credentials([change])[user].result(20)

    def remove_user(self, user, mechanism="SCRAM-SHA-512"):
        change = UserScramCredentialDeletion(user, ScramMechanism[mechanism.replace("-", "_")])
        admin = self.admin
        admin.alter_user_scram_credentials([change])[user].result(20)

    def allow(self, principal, rights):
        """Give rights, as ``topics plan --acls --json`` lists them."""
        wanted = [binding for right in rights for binding in _bindings(principal, right)]
        admin = self.admin
        for done in admin.create_acls(wanted).values():
            done.result(20)

    def forbid(self, principal, resource, name, operation=None, *, required=True):
        """Take rights on a resource away, which must be there if `required`."""
        wanted = AclBindingFilter(
            RESOURCES[resource],
            name,
            ResourcePatternType.ANY,
            principal,
            None,
            AclOperation[operation] if operation else AclOperation.ANY,
            AclPermissionType.ANY,
        )
        admin = self.admin
        for done in admin.delete_acls([wanted]).values():
            assert done.result(20) or not required, f"there was no such right: {wanted}"


def _bindings(principal, right):
    pattern = ResourcePatternType.PREFIXED if right["pattern"] == "prefixed" else ResourcePatternType.LITERAL
    for operation in right["operations"]:
        name = "".join("_" + c if c.isupper() else c for c in operation).lstrip("_").upper()
        yield AclBinding(
            RESOURCES[right["resource"]],
            right["name"],
            pattern,
            principal,
            "*",
            AclOperation[name],
            AclPermissionType.ALLOW,
        )


@contextmanager
def running():
    """Yield the description of a running broker, for `Secured.parse`."""
    made = []

    def layout(folder):
        settings, secured = _layout(folder)
        made[:] = [secured]
        return settings, {"bootstrap.servers": secured.servers["CLEAR"], **secured.client}

    broker = jvm.start(layout=layout)
    try:
        yield json.dumps({name: value for name, value in asdict(made[0]).items() if name != "client"})
    finally:
        broker.stop()


def _layout(folder):
    ports = {name: jvm.free_port() for name in PROTOCOLS}
    authority, stranger = trustme.CA(), trustme.CA()
    for name, issuer in (("authority", authority), ("stranger", stranger)):
        issuer.cert_pem.write_to_path(str(folder / f"{name}.pem"))
    _write(folder, "broker", authority.issue_cert("127.0.0.1", "localhost"))
    _write(folder, "other-host", authority.issue_cert("kafka.invalid"))
    _write(folder, "client", authority.issue_cert("worker@example.invalid", common_name="worker"), KEY_PASSWORD)
    servers = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    secured = Secured(
        {name: address for name, address in servers.items() if name != "CONTROLLER"},
        *(str(folder / name) for name in ("authority.pem", "stranger.pem", "client.pem", "client.key")),
    )
    settings = jvm.properties(ports["CLEAR"], ports["CONTROLLER"], str(folder / "data"))
    settings |= {
        "listeners": _listed(servers, PROTOCOLS),
        "advertised.listeners": _listed(servers, PROTOCOLS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
        "inter.broker.listener.name": "CLEAR",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Without a name comes only the controller itself, on a port that no client knows.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": secured.authority,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "listener.name.certificate.ssl.client.auth": "required",
        "listener.name.certificate.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]*).*$/$1/,DEFAULT",
        "listener.name.stranger.ssl.keystore.type": "PEM",
        "listener.name.stranger.ssl.keystore.location": str(folder / "other-host.pem"),
    }
    users = "".join(f' user_{user}="{word}"' for user, word in ((ADMIN, PASSWORD), (PLAIN_USER, PLAIN_PASSWORD)))
    modules = {
        "plain": f'plain.PlainLoginModule required username="{ADMIN}" password="{PASSWORD}"{users};',
        "scram-sha-256": "scram.ScramLoginModule required;",
        "scram-sha-512": "scram.ScramLoginModule required;",
    }
    for listener in ("short", "token"):
        settings[f"listener.name.{listener}.connections.max.reauth.ms"] = "3000"
    settings["listener.name.token.sasl.enabled.mechanisms"] = "OAUTHBEARER"
    module = "oauthbearer.OAuthBearerLoginModule required;"
    settings["listener.name.token.oauthbearer.sasl.jaas.config"] = f"org.apache.kafka.common.security.{module}"
    for listener in ("login", "clear", "stranger", "short"):
        for mechanism, module in modules.items():
            name = f"listener.name.{listener}.{mechanism}.sasl.jaas.config"
            settings[name] = f"org.apache.kafka.common.security.{module}"
    return settings, secured


def _listed(servers, names):
    return ",".join(f"{name}://{servers[name]}" for name in names)


def _write(folder, name, made, password=""):
    """Write certificate and key: in one file as Java wants them, in two as a client does."""
    chain = [blob.bytes() for blob in made.cert_chain_pems]
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    hidden = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)
    if password:
        (folder / f"{name}.key").write_bytes(text)
        (folder / f"{name}.pem").write_bytes(b"".join(chain))
    else:
        (folder / f"{name}.pem").write_bytes(b"".join([text, *chain]))
