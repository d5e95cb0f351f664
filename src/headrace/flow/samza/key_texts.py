"""The keys and texts of a file, parsed as numbers, flags and choices."""

from headrace.model.error import ConfigError


class KeyTexts:
    """Keys and texts. An error of a method names the key and the values that it may have."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def get(self, *keys: str) -> str | None:
        """Return the value of the first of these keys that has one."""
        values = (self.texts.get(key, "").strip() for key in keys)
        return next((each for each in values if each), None)

    def need(self, key: str, example: str) -> str:
        """Return the value of a key that must have one."""
        value = self.get(key)
        if value is None:
            raise ConfigError(f"{key} is missing: write {key}={example}")
        return value

    def number(self, key: str, default: int, minimum: int) -> int:
        text = self.get(key)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            number = minimum - 1
        if number < minimum:
            raise ConfigError(f"{key} is {text!r}: write a whole number, {minimum} or more")
        return number

    def flag(self, *keys: str) -> bool:
        text = self.get(*keys)
        if text is not None and text.lower() not in ("true", "false"):
            raise ConfigError(f"{keys[0]} is {text!r}: write true or false")
        return text is not None and text.lower() == "true"

    def one_of(self, keys: tuple[str, ...], choices: tuple[str, ...], default: str) -> str:
        text = self.get(*keys)
        if text is not None and text not in choices:
            raise ConfigError(f"{keys[0]} is {text!r}: write {' or '.join(choices)}")
        return text or default

    def below(self, prefix: str) -> dict[str, str]:
        """Return the keys that begin with a prefix, without it."""
        return {
            key.removeprefix(prefix): value
            for key, value in self.texts.items()
            if key.startswith(prefix)
        }
