"""A server behind TLS, whose certificate is signed by an authority of one's own."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from qdrant_client import QdrantClient
from qdrant_client.grpc import CollectionsServicer
from qdrant_client.grpc.collections_service_pb2_grpc import add_CollectionsServicer_to_server

from sbert_retriever import Retriever
from sbert_retriever.errors import StoreRequestError
from sbert_retriever.index.connection import connect
from sbert_retriever.index.store import PassageStore
from sbert_retriever.testing import HashEncoder

PEM = serialization.Encoding.PEM


def signed(name, key, *, by, signer, extensions):
    """A certificate of `key`'s for ten years."""
    today = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        issuer_name=by,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=today - datetime.timedelta(days=1),
        not_valid_after=today + datetime.timedelta(days=3650),
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256())


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """The files of an authority (ca.pem) and of a server at 127.0.0.1 (server.pem, server.key)."""
    folder = tmp_path_factory.mktemp("tls")
    root, leaf = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority, server = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
        for text in ("Our authority", "Our server")
    )
    other_uses = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "encipher_only", "decipher_only"),
    )
    usage = dict.fromkeys(other_uses, False)
    ca = signed(
        authority,
        root,
        by=authority,
        signer=root,
        extensions=[
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), True),
            (x509.SubjectKeyIdentifier.from_public_key(root.public_key()), False),
        ],
    )
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = signed(
        server,
        leaf,
        by=authority,
        signer=root,
        extensions=[
            (x509.SubjectAlternativeName([address]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key()), False),
        ],
    )
    (folder / "ca.pem").write_bytes(ca.public_bytes(PEM))
    (folder / "server.pem").write_bytes(certificate.public_bytes(PEM))
    secret = leaf.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.key").write_bytes(secret)
    return folder


@pytest.fixture
def secured(listener, tls):
    listener.secure(tls / "server.pem", tls / "server.key")
    return listener


def test_an_unknown_authority_is_told_of_at_once(secured):
    """It is no passing fault: nothing is tried again, and the sentence says what to do."""
    with pytest.raises(StoreRequestError, match=r"certificate is not trusted.*SSL_CERT_FILE"):
        Retriever.open(secured.url, model=HashEncoder(dim=16))
    assert secured.asked == []


def test_an_authority_of_ones_own_is_named_in_the_environment(secured, tls, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(tls / "ca.pem"))
    with Retriever.open(secured.url, model=HashEncoder(dim=16), api_key="secret") as retriever:
        assert retriever.search("tea") == []
    assert {headers["api-key"] for headers in secured.headers} == {"secret"}


def test_a_client_may_bring_its_own_authority(secured, tls):
    trusted = ssl.create_default_context(cafile=tls / "ca.pem")
    with closing(QdrantClient(secured.url, verify=trusted, check_compatibility=False)) as client:
        assert Retriever.open(client=client, model=HashEncoder(dim=16)).search("tea") == []


@pytest.mark.parametrize("trusted", [False, True])
def test_grpc_over_tls(tls, trusted):
    """Where the server is trusted, its answer comes: that it has no such method."""
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        add_CollectionsServicer_to_server(CollectionsServicer(), server)
        pair = ((tls / "server.key").read_bytes(), (tls / "server.pem").read_bytes())
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
        server.start()
        roots = {"root_certificates": (tls / "ca.pem").read_bytes()} if trusted else None
        client = QdrantClient(
            "https://127.0.0.1",
            prefer_grpc=True,
            grpc_port=port,
            grpc_options=roots,
            check_compatibility=False,
        )
        expected = "UNIMPLEMENTED" if trusted else "certificate is not trusted"
        try:
            connection = connect(None, client=client)
            with pytest.raises(StoreRequestError, match=expected):
                connection.run(PassageStore(connection, "docs").exists())
        finally:
            client.close()
            server.stop(None).wait()
