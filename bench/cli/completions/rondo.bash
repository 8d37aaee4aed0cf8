# SPDX-License-Identifier: Apache-2.0
# bash completion for rondo: commands and their options, as the installed rondo lists them.
_rondo() {
  local word=${COMP_WORDS[COMP_CWORD]} command=
  [ "$COMP_CWORD" -gt 1 ] && command=${COMP_WORDS[1]}
  if [ -n "$command" ] && [[ $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$(rondo $command --list-options 2>/dev/null | cut -f 1)" -- "$word")
}
complete -F _rondo rondo
