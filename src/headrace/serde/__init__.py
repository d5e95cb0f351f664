"""Records with schemas: the registry's client, the framing of values, and the three formats.

How it is used::

    from headrace.serde.deserializer import Deserializer
    from headrace.serde.registry_client import RegistryClient
    from headrace.serde.registry_client_settings import RegistryClientSettings
    from headrace.serde.serializer import Serializer

    settings = RegistryClientSettings.of({"schema.registry.url": "http://127.0.0.1:8081"})
    with RegistryClient(settings) as registry:
        found = Deserializer(registry).decode(value, headers)       # Undecodable, RegistryError
        found.value, found.schema.id, found.schema.type             # JSON alone with as_json=True

        serializer = Serializer(registry)
        schema = serializer.latest("clicks-value")                  # or .register(subject, text)
        data = serializer.encode({"page": "/"}, schema)             # Unencodable

Everything here blocks: an event loop calls it in a thread. Clients, serializers and deserializers
may be shared between threads.
"""
