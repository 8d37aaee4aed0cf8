# SPDX-License-Identifier: Apache-2.0
# fish completion for rondo: commands and their options, as the installed rondo lists them.
function __rondo_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and echo $words[2]
end
complete -c rondo -f -n 'not __rondo_command >/dev/null' -a '(rondo --list-options)'
complete -c rondo -n '__rondo_command >/dev/null' -a '(rondo (__rondo_command) --list-options 2>/dev/null)'
