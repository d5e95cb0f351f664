"""`headrace completion`: scripts with which a shell completes commands and options.

The script calls `headrace completion candidates -- WORD...` with the words typed so far, the
unfinished one last. Only the noun that is being completed is loaded.
"""

from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.cli.terminal.epilog import epilog

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  source <(headrace completion bash)                               for this shell

  headrace completion bash > ~/.local/share/bash-completion/completions/headrace

  headrace completion zsh > "${fpath[1]}/_headrace"                 then start a new shell

  headrace completion fish > ~/.config/fish/completions/headrace.fish
"""

_BASH = """\
_headrace_completion() {
    local IFS=$'\\n'
    COMPREPLY=($(headrace completion candidates -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _headrace_completion headrace
"""
_ZSH = """\
#compdef headrace
_headrace() {
    local -a words_found
    words_found=("${(@f)$(headrace completion candidates -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${words_found[*]}" ]]; then compadd -- "${words_found[@]}"; else _files; fi
}
if [[ "${funcstack[1]}" == _headrace ]]; then _headrace "$@"; else compdef _headrace headrace; fi
"""
_FISH = """\
function __headrace_candidates
    set -l words (commandline -opc) (commandline -ct)
    headrace completion candidates -- $words[2..] 2>/dev/null
end
complete -c headrace -a '(__headrace_candidates)'
"""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    CANDIDATES = "candidates"


@command.command(epilog=epilog(_EXAMPLES))
def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", show_choices=False)],
    words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> None:
    """Print the completion script for a shell."""
    if shell is Shell.CANDIDATES:
        print("\n".join(candidates(context.find_root().command, words or [""])))
        return
    print({Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}[shell], end="")


def candidates(root: Any, words: list[str]) -> list[str]:
    """Return the completions of the last word.

    Args:
        root: the top-level command.
        words: the words after the program's name; the last one is unfinished.
    """
    *finished, last = words
    node, context = root, root.make_context("headrace", [], resilient_parsing=True)
    before = None
    for word in finished:
        before = _option(node, word)
        below = node.get_command(context, word) if hasattr(node, "list_commands") else None
        if below is not None:
            node, before = below, None
            context = node.context_class(node, parent=context, info_name=word)
    if before is not None and not getattr(before, "is_flag", False):
        completions = _values(before, context, last)
    elif last.startswith("-"):
        completions = [name for each in node.params for name in each.opts if name.startswith("--")]
        completions.append("--help")
    else:
        completions = node.list_commands(context) if hasattr(node, "list_commands") else []
        for each in node.params:
            if each.param_type_name == "argument":
                completions += _values(each, context, last)
    return sorted({each for each in completions if each.startswith(last)} - {Shell.CANDIDATES})


def _values(parameter: Any, context: Any, last: str) -> list[str]:
    """Return the values that a parameter names. The shell itself completes names of files."""
    completions = parameter.shell_complete(context, last)
    return [str(each.value) for each in completions if each.type == "plain"]


def _option(node: Any, word: str) -> Any:
    for each in node.params:
        if each.param_type_name == "option" and word in each.opts:
            return each
    return None
