"""What the registry refuses, with the codes that Confluent's clients know.

The first three digits of a code are the HTTP status.
"""


class RegistryError(Exception):
    """A refusal: `{"error_code": code, "message": message}` with the status of the code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status.

        >>> RegistryError(42201, "").status, RegistryError(409, "").status
        (422, 409)
        """
        return int(str(self.code)[:3])


class TopicIsMirror(RegistryError):
    """Only another cluster writes to the registry's topic: 42205, as in a read-only mode."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            42205,
            f"This registry is read-only: its topic {topic} is a mirror of another cluster's. "
            "Register schemas there, or hand the topic over to this cluster with: headrace mirror "
            f"promote FILE {topic}",
        )


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(name: object = "") -> RegistryError:
    return RegistryError(40403, f"Schema {name} not found" if name != "" else "Schema not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40404,
        f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted. "
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently "
        "deleted",
    )


def no_subject_config(subject: str) -> RegistryError:
    return RegistryError(
        40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_subject_mode(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(message: str) -> RegistryError:
    return RegistryError(409, message)


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(42201, message)


def invalid_version(text: str) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{text}' is not a valid version id. Allowed values are between "
        '[1, 2^31-1] and the string "latest"',
    )


def invalid_level(text: object) -> RegistryError:
    return RegistryError(
        42203,
        f"Invalid compatibility level {text!r}. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode(text: object) -> RegistryError:
    return RegistryError(
        42204,
        f"Invalid mode {text!r}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT "
        "and FORWARD",
    )


def not_permitted(message: str) -> RegistryError:
    return RegistryError(42205, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    return RegistryError(
        42206,
        "One or more references exist to the schema "
        f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def id_does_not_match(schema_id: int) -> RegistryError:
    return RegistryError(42207, f"Overwrite new schema with id {schema_id} is not permitted.")


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject[:128]}' is not a valid subject.")


def schema_too_large(message: str) -> RegistryError:
    return RegistryError(42209, message)


def invalid_rule_set(message: str) -> RegistryError:
    return RegistryError(42210, message)


def context_not_empty(context: str) -> RegistryError:
    return RegistryError(42211, f"The specified context '{context}' is not empty.")


def association_not_found(resource: str) -> RegistryError:
    return RegistryError(40410, f"No association was found for resource '{resource[:128]}'.")


def association_of_resource_exists(kind: str, resource: str) -> RegistryError:
    return RegistryError(
        40903, f"An association of type '{kind}' already exists for resource '{resource}'"
    )


def association_of_subject_exists(kind: str, subject: str) -> RegistryError:
    return RegistryError(
        40904, f"An association of type '{kind}' already exists for subject '{subject}'"
    )


def strong_association_exists(kind: str, subject: str) -> RegistryError:
    return RegistryError(
        40905, f"A strong association of type '{kind}' already exists for subject '{subject}'"
    )


def no_active_version(subject: str) -> RegistryError:
    return RegistryError(40907, f"No active version exists for subject '{subject}'")


def association_frozen(kind: str, subject: str) -> RegistryError:
    return RegistryError(
        40908, f"The association of type '{kind}' is frozen for subject '{subject}'"
    )


def invalid_association(member: str, detail: str) -> RegistryError:
    return RegistryError(42212, f"The association has an invalid value for '{member}': {detail}")


def store_failure(message: str) -> RegistryError:
    return RegistryError(50001, message)


def timed_out(message: str) -> RegistryError:
    return RegistryError(50002, message)


def forwarding_failed(message: str) -> RegistryError:
    return RegistryError(50003, message)


def unknown_leader(message: str) -> RegistryError:
    return RegistryError(50004, message)


def bad_request(message: str) -> RegistryError:
    return RegistryError(400, message)
