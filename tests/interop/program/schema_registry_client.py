"""Use a registry through python-schema-registry-client; print what it answers as JSON.

Argument: URL. Input: NAME:SECRET.
"""

import asyncio
import json
import sys
from typing import Any

import httpx
from schema_registry.client import AsyncSchemaRegistryClient, SchemaRegistryClient, schema
from schema_registry.client.errors import ClientError
from schema_registry.serializers import (
    AsyncAvroMessageSerializer,
    AvroMessageSerializer,
    JsonMessageSerializer,
)

USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
AGE = {"name": "age", "type": "int"}
POINT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"x": {"type": "integer"}},
}


def longer(default: int | None) -> schema.AvroSchema:
    """Return the schema of a user with one more field."""
    age = AGE if default is None else {**AGE, "default": default}
    return schema.AvroSchema({**USER, "fields": [*USER["fields"], age]})


def use(client: SchemaRegistryClient) -> dict[str, Any]:
    user, subject = schema.AvroSchema(USER), "psr-users"
    number = client.register(subject, user)
    try:
        client.register(subject, longer(default=None))
    except ClientError as error:
        refused = error.http_code
    answers: dict[str, Any] = {
        "registered twice": client.register(subject, schema.AvroSchema(USER)) == number,
        "by id": client.get_by_id(number) == user,
        "latest": client.get_schema(subject).version,
        "looked up": client.check_version(subject, user).version,
        "places": client.get_schema_subject_versions(number)[0].subject,
        "fits": client.test_compatibility(subject, longer(default=0)),
        "does not fit": client.test_compatibility(subject, longer(default=None)),
        "refused": refused,
        "updated": client.update_compatibility("NONE", subject),
        "level": client.get_compatibility(subject),
        "second": client.register(subject, longer(default=None)) > number,
        "versions": client.get_versions(subject),
    }
    avro = AvroMessageSerializer(client)
    data = avro.encode_record_with_schema(subject, user, {"name": "Ann"})
    answers["avro"] = [data[0], avro.decode_message(data)]
    point = schema.JsonSchema(POINT)
    serializer = JsonMessageSerializer(client)
    data = serializer.encode_record_with_schema("psr-points", point, {"x": 1})
    answers["json"] = [data[0], serializer.decode_message(data)]
    answers["subjects"] = sorted(client.get_subjects())
    answers["deleted version"] = client.delete_version(subject, 1)
    answers["deleted"] = client.delete_subject(subject)
    answers["left"] = client.get_subjects()
    return answers


async def use_async(client: AsyncSchemaRegistryClient) -> Any:
    serializer = AsyncAvroMessageSerializer(client)
    data = await serializer.encode_record_with_schema(
        "psr-async", schema.AvroSchema(USER), {"name": "Bob"}
    )
    return await serializer.decode_message(data)


def status_without_login(url: str) -> int:
    try:
        SchemaRegistryClient(url, timeout=httpx.Timeout(60)).register(
            "psr-users", schema.AvroSchema(USER)
        )
    except ClientError as error:
        return error.http_code
    return 200


if __name__ == "__main__":
    address, login = sys.argv[1], httpx.BasicAuth(*sys.stdin.read().strip().split(":"))
    options = {"auth": login, "timeout": httpx.Timeout(60)}
    result = use(SchemaRegistryClient(address, **options))
    result["async"] = asyncio.run(use_async(AsyncSchemaRegistryClient(address, **options)))
    result["no login"] = status_without_login(address)
    print(json.dumps(result))
