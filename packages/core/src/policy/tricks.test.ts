import { expect, test } from 'vitest'
import { compilePolicy, decide } from './decide.ts'
import { anything } from './meaning.ts'
import { bash, onCommand, policyOf } from './test-policy.ts'
import { toolMeaning } from './tool-meaning.ts'

const rules = [
  onCommand('deny', 'git push *'),
  onCommand('ask', 'npm publish *'),
  onCommand('allow', 'git status *'),
  onCommand('allow', 'git log *'),
  onCommand('allow', 'ls *'),
  onCommand('allow', 'echo *'),
  onCommand('allow', 'cat *'),
  onCommand('allow', 'true'),
  onCommand('allow', 'npm test *'),
  onCommand('allow', 'timeout *'),
  onCommand('allow', 'bash -c *'),
  onCommand('allow', 'find *'),
  onCommand('allow', 'xargs *'),
]
const supervised = compilePolicy(policyOf(rules))
const full = compilePolicy(policyOf(rules, { autonomy: 'full' }))

/** Each command, what becomes of it where what is not spoken of is asked for, and where it is allowed. */
const tricks: readonly (readonly [command: string, supervised: string, full: string])[] = [
  // Plain words, and what only looks different.
  ['git status', 'allow', 'allow'],
  ['git status -s', 'allow', 'allow'],
  ['git push', 'deny', 'deny'],
  ['git push origin main', 'deny', 'deny'],
  ['git  \t push', 'deny', 'deny'],
  ['git statusx', 'ask', 'allow'],
  ['gitstatus', 'ask', 'allow'],
  ['GIT push', 'ask', 'allow'],
  ['git pushx', 'ask', 'allow'],
  ['git commit -m "git push"', 'ask', 'allow'],
  ['echo git push', 'allow', 'allow'],
  ['echo "git push; rm -rf /"', 'allow', 'allow'],
  ["echo '$(git push)'", 'allow', 'allow'],
  ['echo "\\$(git push)"', 'allow', 'allow'],
  ['echo hi # git push', 'allow', 'allow'],
  ['true', 'allow', 'allow'],
  ['true false', 'ask', 'allow'],
  ['', 'ask', 'allow'],
  // Quoting and escapes.
  ['\\git push', 'deny', 'deny'],
  ['"g"it push', 'deny', 'deny'],
  ['g\'i\'t p"us"h', 'deny', 'deny'],
  ["git $'push'", 'deny', 'deny'],
  ["git $'\\x70\\165sh'", 'deny', 'deny'],
  ["$'\\x67it' push", 'deny', 'deny'],
  ["git$'\\x20'push", 'ask', 'allow'],
  ["git '' push", 'ask', 'allow'],
  ['g\\it pu\\sh', 'deny', 'deny'],
  ['git \\\npush', 'deny', 'deny'],
  ['gi\\\nt push', 'deny', 'deny'],
  ['git push\\\n origin', 'deny', 'deny'],
  // What only the run tells.
  ['git$IFS"push"', 'ask', 'ask'],
  ['git ${IFS}push', 'ask', 'ask'],
  ['git $x', 'ask', 'ask'],
  ['$x push', 'ask', 'ask'],
  ['$(echo git) push', 'ask', 'ask'],
  ['`echo git` push', 'ask', 'ask'],
  ['git $(echo push)', 'ask', 'ask'],
  ['${x:-git} push', 'ask', 'ask'],
  ['{git,push}', 'ask', 'ask'],
  ['git {push,x}', 'ask', 'ask'],
  ['/usr/bin/gi? push', 'ask', 'ask'],
  ['git pu*', 'ask', 'ask'],
  ['~/git push', 'ask', 'ask'],
  ['$"git" push', 'ask', 'ask'],
  ['git log $branch', 'allow', 'allow'],
  ['ls *.ts ~', 'allow', 'allow'],
  ['npm test $x', 'allow', 'allow'],
  ['git $x status', 'ask', 'ask'],
  // Other names of the same program, options in front of its subcommand.
  ['/usr/bin/git push', 'deny', 'deny'],
  ['./git push', 'deny', 'deny'],
  ['./git status', 'ask', 'allow'],
  ['/tmp/ls', 'ask', 'allow'],
  ['git -C /x push', 'deny', 'deny'],
  ['git --no-pager push', 'deny', 'deny'],
  ['git --git-dir=/x --work-tree /y push', 'deny', 'deny'],
  ['git -c user.name=x push', 'deny', 'deny'],
  ['git -c alias.x=push x', 'ask', 'ask'],
  ['git -c alias.status=push status', 'ask', 'ask'],
  ['git --config-env=alias.x=Y x', 'ask', 'ask'],
  ['git -C /x status', 'ask', 'allow'],
  // Several commands.
  ['git status && git push', 'deny', 'deny'],
  ['git status; git push', 'deny', 'deny'],
  ['git status\ngit push', 'deny', 'deny'],
  ['git status & git push', 'deny', 'deny'],
  ['git status || git push', 'deny', 'deny'],
  ['git status | git push', 'deny', 'deny'],
  ['git status |& git push', 'deny', 'deny'],
  ['! git push', 'deny', 'deny'],
  ['time git push', 'deny', 'deny'],
  ['(git push)', 'deny', 'deny'],
  ['{ git push; }', 'deny', 'deny'],
  ['if true; then git push; fi', 'deny', 'deny'],
  ['while git push; do true; done', 'deny', 'deny'],
  ['for x in a; do git push; done', 'deny', 'deny'],
  ['case x in x) git push;; esac', 'deny', 'deny'],
  ['coproc git push', 'deny', 'deny'],
  ['f() { git push; }; f', 'deny', 'deny'],
  ['function ls { git push; }; ls', 'deny', 'deny'],
  ['ls() { "$@"; }; ls git push', 'ask', 'ask'],
  ['git status && npm test && ls', 'allow', 'allow'],
  ['git status && make', 'ask', 'allow'],
  ['git status && npm publish', 'ask', 'ask'],
  ['npm publish && git push', 'deny', 'deny'],
  ['for f in a b; do cat $f; done', 'allow', 'allow'],
  ['for PATH in /tmp; do ls; done', 'ask', 'allow'],
  // Substitutions, wherever they hide.
  ['echo $(git push)', 'deny', 'deny'],
  ['echo `git push`', 'deny', 'deny'],
  ['echo "`git push`"', 'deny', 'deny'],
  ['echo `echo \\`git push\\``', 'deny', 'deny'],
  ['cat <(git push)', 'deny', 'deny'],
  ['ls > >(git push)', 'deny', 'deny'],
  ['echo ${x:-$(git push)}', 'deny', 'deny'],
  ['echo ${x/$(git push)/y}', 'deny', 'deny'],
  ['echo $(( $(git push) ))', 'deny', 'deny'],
  ['x[$(git push)]=1', 'deny', 'deny'],
  ['x=(a $(git push))', 'deny', 'deny'],
  ['[[ -n $(git push) ]]', 'deny', 'deny'],
  ['cat <<E\n$(git push)\nE', 'deny', 'deny'],
  ["cat <<'E'\n$(git push)\nE", 'allow', 'allow'],
  ['cat <<< $(git push)', 'deny', 'deny'],
  ["[[ -v 'a[$(git push)]' ]]", 'ask', 'ask'],
  ["for x in 'a[$(git push)]'; do echo $((x)); done", 'ask', 'ask'],
  ["printf -v 'a[$(git push)]' x", 'ask', 'ask'],
  // Commands that run commands.
  ["bash -c 'git push'", 'deny', 'deny'],
  ['bash -c "git status"', 'allow', 'allow'],
  ["bash -ec 'git status; git push'", 'deny', 'deny'],
  ["bash --norc -o errexit -c 'git push' x", 'deny', 'deny'],
  ["/bin/sh -c 'git push'", 'deny', 'deny'],
  ['bash -c \'bash -c "git push"\'', 'deny', 'deny'],
  ['bash -c "$x"', 'ask', 'ask'],
  ["bash <<< 'git push'", 'deny', 'deny'],
  ['bash <<E\ngit push\nE', 'deny', 'deny'],
  ['bash -s <<E\ngit push\nE', 'deny', 'deny'],
  ["bash /dev/stdin <<< 'git push'", 'deny', 'deny'],
  ["echo 'git push' | bash", 'ask', 'ask'],
  ["echo 'git push' | sh -s", 'ask', 'ask'],
  ['source <(echo git push)', 'ask', 'ask'],
  ["eval 'git push'", 'deny', 'deny'],
  ['eval git push', 'deny', 'deny'],
  ['eval "$x"', 'ask', 'ask'],
  ["trap 'git push' EXIT", 'deny', 'deny'],
  ["alias ls='git push'; ls", 'deny', 'deny'],
  ['alias ls=git; ls push', 'ask', 'ask'],
  ['command git push', 'deny', 'deny'],
  ['command -p git push', 'deny', 'deny'],
  ['command -v git', 'ask', 'allow'],
  ['builtin eval git push', 'deny', 'deny'],
  ['exec git push', 'deny', 'deny'],
  ['exec -a x git push', 'deny', 'deny'],
  ['env -i git push', 'deny', 'deny'],
  ['env A=1 B=2 git push', 'deny', 'deny'],
  ['env -u X -- git push', 'deny', 'deny'],
  ["env -S 'git push'", 'deny', 'deny'],
  ["env --split-string='git push'", 'deny', 'deny'],
  ['env --strange 3 git push', 'deny', 'deny'],
  ['nohup git push &', 'deny', 'deny'],
  ['setsid nice -n 5 git push', 'deny', 'deny'],
  ['timeout 5 git push', 'deny', 'deny'],
  ['timeout -k 3 --signal=KILL 5 git push', 'deny', 'deny'],
  ['timeout 5 git status', 'allow', 'allow'],
  ['timeout 5 make', 'ask', 'allow'],
  ['sudo -u x git push', 'deny', 'deny'],
  ['stdbuf -oL git push', 'deny', 'deny'],
  ['busybox sh -c "git push"', 'deny', 'deny'],
  ['find . -exec git push {} \\;', 'deny', 'deny'],
  ['find . -name x -execdir sh -c "git push" \\;', 'deny', 'deny'],
  ['find . -exec cat {} +', 'allow', 'allow'],
  ['find . -exec make \\;', 'ask', 'allow'],
  ['ls | xargs git push', 'deny', 'deny'],
  ['ls | xargs -n1 -I{} git push {}', 'deny', 'deny'],
  ['ls | xargs -I{} {} push', 'ask', 'ask'],
  ['ls | xargs git', 'ask', 'ask'],
  ['ls | xargs cat', 'allow', 'allow'],
  ['git bisect run git push', 'deny', 'deny'],
  ["git submodule foreach 'git push'", 'deny', 'deny'],
  ["git rebase -x 'git push' main", 'deny', 'deny'],
  ["watch -n1 'git push'", 'deny', 'deny'],
  ['parallel git push ::: a', 'deny', 'deny'],
  ['hash -p /tmp/evil git; git status', 'ask', 'ask'],
  // Other users, later times, other terminals and machines.
  ["su -c 'git push' x", 'deny', 'deny'],
  ["su -lc 'git push' x", 'deny', 'deny'],
  ["su '-cgit push'", 'deny', 'deny'],
  ['su -s /bin/x y', 'ask', 'ask'],
  ['runuser -u x -- git push', 'deny', 'deny'],
  ['runuser -u x git push', 'deny', 'deny'],
  ["runuser x -c 'git push'", 'deny', 'deny'],
  ["script -qc 'git push' /dev/null", 'deny', 'deny'],
  ['script -q /dev/null git push', 'deny', 'deny'],
  ["sg docker 'git push'", 'deny', 'deny'],
  ["sg docker -c 'git push'", 'deny', 'deny'],
  ["at now <<< 'git push'", 'deny', 'deny'],
  ["echo 'git push' | at now", 'ask', 'ask'],
  ['batch <<E\ngit push\nE', 'deny', 'deny'],
  ['at -f x now', 'ask', 'ask'],
  ['at -l', 'ask', 'allow'],
  ['crontab x', 'ask', 'ask'],
  ['crontab -l', 'ask', 'allow'],
  ["tmux new -d 'git push'", 'deny', 'deny'],
  ['tmux new-session -d git push', 'deny', 'deny'],
  ["tmux send-keys 'gi' 't push' Enter", 'ask', 'ask'],
  ['tmux ls', 'ask', 'allow'],
  ["tmux ls -F '#(git push)'", 'ask', 'ask'],
  ['screen -dmS x git push', 'deny', 'deny'],
  ["screen -S x -X stuff 'git pu'", 'ask', 'ask'],
  ['screen -ls', 'ask', 'allow'],
  ['ssh host git push', 'deny', 'deny'],
  ["ssh -p 22 me@host 'cd x && git push'", 'deny', 'deny'],
  ["ssh -o 'ProxyCommand=git push' host true", 'deny', 'deny'],
  ["ssh -oProxyCommand='git push' host true", 'deny', 'deny'],
  ['ssh -F x host true', 'ask', 'ask'],
  ['ssh host $x', 'ask', 'ask'],
  ['echo git push | ssh host', 'ask', 'ask'],
  ['ssh host uptime', 'ask', 'allow'],
  ['ssh -V', 'ask', 'allow'],
  ["expect -c 'spawn git push'", 'ask', 'ask'],
  ['fakeroot git push', 'deny', 'deny'],
  ['firejail --net=none git push', 'deny', 'deny'],
  ['torsocks -i git push', 'deny', 'deny'],
  ['proxychains4 -q git push', 'deny', 'deny'],
  ['rlwrap -a git push', 'deny', 'deny'],
  ['gosu nobody git push', 'deny', 'deny'],
  ['npx git push', 'deny', 'deny'],
  ['npx -y -p x git push', 'deny', 'deny'],
  ["npx -c 'env git push'", 'deny', 'deny'],
  ["npm exec -c 'git push'", 'deny', 'deny'],
  ['watchexec -- git push', 'deny', 'deny'],
  ['conda run -n x git push', 'deny', 'deny'],
  ['rustup run stable git push', 'deny', 'deny'],
  ['rustup update', 'ask', 'allow'],
  ['nvm exec 18 git push', 'deny', 'deny'],
  ["ncat -c 'git push' x", 'deny', 'deny'],
  ["socat EXEC:'git push' -", 'deny', 'deny'],
  ['nc host 80', 'ask', 'allow'],
  ['npx tsc', 'ask', 'allow'],
  ['npx $x', 'ask', 'ask'],
  ['npm install git', 'ask', 'allow'],
  ['poetry run git push', 'deny', 'deny'],
  ["docker run x sh -c 'git push'", 'deny', 'deny'],
  ['docker ps', 'ask', 'allow'],
  ["rsync -e 'git push' a b:", 'deny', 'deny'],
  ["tar cf x y --checkpoint-action=exec='git push'", 'deny', 'deny'],
  ['tar xf x git push', 'ask', 'allow'],
  // What the shell does around a command keeps a rule on commands from allowing it.
  ['PATH=/tmp git status', 'ask', 'allow'],
  ['PATH=/tmp; git status', 'ask', 'allow'],
  ['A=1 git push', 'deny', 'deny'],
  ['git status > out', 'ask', 'allow'],
  ['git status >> out', 'ask', 'allow'],
  ['git status &> out', 'ask', 'allow'],
  ['{ git status; } > out', 'ask', 'allow'],
  ['echo x >| ~/.bashrc', 'ask', 'allow'],
  ['git status > $x', 'ask', 'allow'],
  ['git status 2>/dev/null', 'allow', 'allow'],
  ['git status 2>&1 >&2', 'allow', 'allow'],
  ['cat < in', 'allow', 'allow'],
  ['cat <> in', 'ask', 'allow'],
  ['git push > out', 'deny', 'deny'],
  [': ${BASH_ENV:=/tmp/x}; ls', 'ask', 'allow'],
  // Text from elsewhere that a shell evaluates.
  ['echo $(( $(<f) ))', 'ask', 'allow'],
  ['for f in *; do echo $((f)); done', 'ask', 'allow'],
  ['[[ $(cat f) -eq 1 ]]', 'ask', 'allow'],
  ["bash -c 'echo $(($1))' _ 'a[$(git push)]'", 'ask', 'ask'],
  ["x='a[$(git push)]'; eval 'echo $((x))'", 'ask', 'ask'],
  ["f() { echo $(($1)); }; f 'a[$(git push)]'", 'ask', 'ask'],
  ['echo $((1 + 2))', 'allow', 'allow'],
  ['echo $(cat f)', 'allow', 'allow'],
  // What does nothing needs no rule beside another command, and alone is what it is.
  ['ls || :', 'allow', 'allow'],
  ['ls; false', 'allow', 'allow'],
  ['make || true x', 'ask', 'allow'],
  ['ls || true x', 'allow', 'allow'],
  ['ls || : > f', 'ask', 'allow'],
  ['ls; PATH=/tmp :', 'ask', 'allow'],
  [':', 'ask', 'allow'],
  [': $(git push)', 'deny', 'deny'],
  ['ls; : $(make)', 'ask', 'allow'],
  [': $(ls)', 'allow', 'allow'],
  ['/tmp/true; ls', 'ask', 'allow'],
  ['true() { make; }; true; ls', 'ask', 'allow'],
  // Its own outputs, and what is made to look like them.
  ['ls > /dev/stdout 2> /dev/stderr', 'allow', 'allow'],
  ['ls >> /dev/stderr', 'allow', 'allow'],
  ['ls > /dev/stdout/../x', 'ask', 'allow'],
  ['echo x 1<f >/dev/stdout', 'ask', 'allow'],
  ['echo x <f 1<&0 >/dev/stdout', 'ask', 'allow'],
  ['echo x <f >&0 >/dev/stdout', 'ask', 'allow'],
  ['echo x 3<f >&3 >/dev/stdout', 'ask', 'allow'],
  ['{ echo x >/dev/stdout; } 1<f', 'ask', 'allow'],
  // Variables that change how commands run, set by other means.
  ['((PATH=1)); ls', 'ask', 'allow'],
  ['echo $((PATH=1)); ls', 'ask', 'allow'],
  ['((i+=1)); ls', 'ask', 'allow'],
  ['echo $((i = 1)); ls', 'ask', 'allow'],
  ['echo $((2 * (3 + 4)))', 'allow', 'allow'],
  ['[[ PATH=1 -eq 1 ]]; git status', 'ask', 'allow'],
  ['[[ 1 -eq PATH=1 ]] && git status', 'ask', 'allow'],
  ['echo ${a[PATH=1]}; git status', 'ask', 'allow'],
  ['echo ${a:PATH=1}; git status', 'ask', 'allow'],
  ['echo ${a:0:PATH=1}; git status', 'ask', 'allow'],
  ['echo ${a[PATH=1]:-x}; git status', 'ask', 'allow'],
  ['echo ${#a[PATH=1]}; git status', 'ask', 'allow'],
  ['echo ${!a}; git status', 'ask', 'allow'],
  ['echo ${a@P}; git status', 'ask', 'allow'],
  ['a[PATH=1]=x; git status', 'ask', 'allow'],
  ['a=([PATH=1]=x); git status', 'ask', 'allow'],
  ['[[ -v a[PATH=1] ]]; git status', 'ask', 'allow'],
  ['for ((PATH=1; 0; )); do ls; done; git status', 'ask', 'allow'],
  ['let PATH=1; git status', 'ask', 'allow'],
  ['select PATH in 1; do ls; done', 'ask', 'allow'],
  ['coproc PATH { ls; }; git status', 'ask', 'allow'],
  ['case x in ${PATH:=1}) ls;; esac', 'ask', 'allow'],
  ['ls {PATH}>/dev/null; git status', 'ask', 'allow'],
  ['test -v "a[PATH=1]"; git status', 'ask', 'allow'],
  ['[ $x ]; git status', 'ask', 'allow'],
  ['[ -f x ] && ls', 'ask', 'allow'],
  ['unset PATH; git status', 'ask', 'allow'],
  ['getopts a PATH; git status', 'ask', 'allow'],
  ['cd sub && ./run', 'ask', 'allow'],
  ['command_not_found_handle() { ./x; }; ls', 'ask', 'allow'],
  ['BASH_ENV=x bash -c ls', 'ask', 'allow'],
  ["bash -kc 'ls PATH=1'", 'ask', 'allow'],
  ["zsh -c 'ls'", 'ask', 'allow'],
  ['ls\u00a0; git status', 'ask', 'allow'],
  ['ls\r; git status', 'ask', 'allow'],
  ['ls < /dev/tcp/a.org/80', 'ask', 'allow'],
  // Shapes that everyday commands need, and whose meaning is known whole.
  ['x=1; echo $x', 'allow', 'allow'],
  ['x=$(cat f) && echo "$x"', 'allow', 'allow'],
  ['[[ -f x && $y == a* ]] && ls', 'allow', 'allow'],
  ['if [[ -n "$x" ]]; then ls; else echo no; fi', 'allow', 'allow'],
  ['while IFS= read -r line; do echo "$line"; done < f', 'ask', 'allow'],
  ['for f in a b; do cat "$f" | cat; done 2>&1', 'allow', 'allow'],
  ['NODE_ENV=test npm test', 'allow', 'allow'],
  ['cd sub && npm test', 'ask', 'allow'],
  ["echo \"$(cat <<'E'\nit's $(x) `y`\nE\n)\"", 'allow', 'allow'],
  // Options that are not what they seem.
  ['ls | xargs --max-lines rm echo -rf .', 'ask', 'allow'],
  ['ls | xargs --replace git push {}', 'deny', 'deny'],
  ["env --split='git push'", 'deny', 'deny'],
  ["env --sp 'git push'", 'deny', 'deny'],
  ["env --strange='git push'", 'ask', 'ask'],
  ["su --comm='git push'", 'deny', 'deny'],
  ['find . -exec xargs -I + rm + \\;', 'ask', 'allow'],
  ['find . -exec env -u + git push \\;', 'deny', 'deny'],
  ['find . -exec cat {} + -name x', 'allow', 'allow'],
  ['git log --output=.git/hooks/pre-commit', 'ask', 'allow'],
  ["git rebase --exec='git push' main", 'deny', 'deny'],
  ["git rebase '-xgit push' main", 'deny', 'deny'],
  ["git difftool -y -x 'git push'", 'deny', 'deny'],
  ["git fetch --upload-pack='git push' .", 'deny', 'deny'],
  ["git filter-branch --tree-filter 'git push'", 'deny', 'deny'],
  ['git -c help.autocorrect=immediate pussh', 'ask', 'ask'],
  ['git -c user.name=x commit', 'ask', 'allow'],
  ['git config alias.p push && git p', 'ask', 'ask'],
  // Shells that read, and what they read from.
  ['bash < evil.sh 3<<< true', 'ask', 'ask'],
  ['echo git push | bash 3<<< true', 'ask', 'ask'],
  ["bash 3<x <<< 'true' 0>&3", 'ask', 'ask'],
  ["bash <<< 'git push'", 'deny', 'deny'],
  ["bash <<< 'git push' 2>/dev/null", 'deny', 'deny'],
  ["chroot / <<< 'git push'", 'deny', 'deny'],
  ["sudo -s <<< 'git push'", 'deny', 'deny'],
  ["script /dev/null <<< 'git push'", 'deny', 'deny'],
  ["bash /dev/../dev/stdin <<< 'git push'", 'deny', 'deny'],
  ['setarch x86_64 git push', 'deny', 'deny'],
  ['/lib64/ld-linux-x86-64.so.2 /usr/bin/git push', 'deny', 'deny'],
  ["uv run bash -c '{git,push}'", 'ask', 'ask'],
  // Options of a shell, in every way that it takes them.
  ["bash -oe pipefail -c 'git push'", 'deny', 'deny'],
  ["bash -oO pipefail extglob -c 'git push'", 'deny', 'deny'],
  ["bash -oc pipefail 'git push'", 'deny', 'deny'],
  ["bash -euo pipefail -c 'git push'", 'deny', 'deny'],
  ["bash +c 'git push'", 'deny', 'deny'],
  ["bash -c - 'git push'", 'deny', 'deny'],
  ["bash -s -c 'git push'", 'deny', 'deny'],
  ["bash -c -s 'git push'", 'deny', 'deny'],
  ["bash --rcfile x -c 'git push'", 'deny', 'deny'],
  ["zsh --emulate sh -c 'git push'", 'deny', 'deny'],
  ["bash -o $x -c 'git push'", 'deny', 'deny'],
  ["bash --norc -o errexit -c 'git status'", 'ask', 'allow'],
  ["bash -s x <<< 'git push'", 'deny', 'deny'],
  ['bash run.sh', 'ask', 'allow'],
  ['bash --rcfile x', 'ask', 'ask'],
  // Variables that make programs run others.
  ["GIT_SSH_COMMAND='git push' git fetch", 'deny', 'deny'],
  ["GIT_SSH_COMMAND='ssh -i key' git fetch", 'ask', 'allow'],
  ["export GIT_SSH_COMMAND='git push'; git fetch", 'deny', 'deny'],
  ["export 'PAGER=git push'", 'deny', 'deny'],
  ['export GIT_EDITOR="$x"', 'ask', 'ask'],
  ['export PATH="$HOME/bin:$PATH"', 'ask', 'allow'],
  ["declare -x EDITOR='git push'", 'deny', 'deny'],
  ["env GIT_PAGER='git push' git log", 'deny', 'deny'],
  ["sudo EDITOR='git push' visudo", 'deny', 'deny'],
  ['GIT_PAGER=cat git log', 'ask', 'allow'],
  ["LESSOPEN='|git push' less x", 'deny', 'deny'],
  ["PS4='$(git push)' bash -xc true", 'deny', 'deny'],
  ["BASH_ENV='$(git push)' bash -c true", 'deny', 'deny'],
  ["PROMPT_COMMAND='git push' bash -i", 'deny', 'deny'],
  ["MAKEFLAGS='--eval=$(shell git push)' make", 'ask', 'ask'],
  ['MAKEFLAGS=-j4 make', 'ask', 'allow'],
  ['GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x', 'ask', 'ask'],
  ['GIT_CONFIG_GLOBAL=/dev/null git fetch', 'ask', 'allow'],
  ["NOTE='git push' make", 'ask', 'allow'],
  // Options that name a program, and other names of git's commands.
  ['/usr/lib/git-core/git-push origin', 'deny', 'deny'],
  ['git-lfs pull', 'ask', 'allow'],
  ["git rebase -ix 'git push' main", 'deny', 'deny'],
  ["git grep -O'git push' x", 'deny', 'deny'],
  ["git grep --open-files-in-pager='git push' x", 'deny', 'deny'],
  ["git clone -c core.sshCommand='git push' ssh://x", 'ask', 'ask'],
  ['git clone --config=core.fsmonitor=x y', 'ask', 'ask'],
  ['git clone -c user.name=x y', 'ask', 'allow'],
  ['git clone --template=x y', 'ask', 'ask'],
  ['git clone --depth 1 x', 'ask', 'allow'],
  ["git -c gc.recentObjectsHook='git push' gc", 'ask', 'ask'],
  ["git config core.sshCommand 'git push'", 'deny', 'deny'],
  ['git config user.name x', 'ask', 'allow'],
  ['make SHELL=/bin/bash x', 'ask', 'allow'],
  ["sort --compress-program='git push' x", 'deny', 'deny'],
  ["sort --compress-prog 'git push' x", 'deny', 'deny'],
  ["rg --pre 'git push' x", 'deny', 'deny'],
  ["man -P'git push' ls", 'deny', 'deny'],
  ["make SHELL='git push' x", 'deny', 'deny'],
  ["make --eval='$(shell git push)'", 'ask', 'ask'],
  ['make test', 'ask', 'allow'],
  ["rsync -ae 'git push' a b", 'deny', 'deny'],
  ["rsync -e'git push' a b", 'deny', 'deny'],
  ['rsync -ae ssh a b', 'ask', 'allow'],
  ["tar -xI'git push' -f x", 'deny', 'deny'],
  ['tar -xzf x', 'ask', 'allow'],
  ["scp -oProxyCommand='git push' a b", 'deny', 'deny'],
  ["ssh host -o ProxyCommand='git push'", 'deny', 'deny'],
  ["strace -o '|git push' ls", 'deny', 'deny'],
  ["strace -o'!git push' ls", 'deny', 'deny'],
  ["strace --output='|git push' ls", 'deny', 'deny'],
  ['strace -f -o trace ls', 'ask', 'allow'],
  // What a plain sh reads otherwise than bash.
  ["sh -c '((git push))'", 'deny', 'deny'],
  ["sh -c 'echo a &>x git push'", 'deny', 'deny'],
  ["sh -c 'echo git push &>x'", 'ask', 'allow'],
  ["sh -c '((i += 1)); ls'", 'ask', 'allow'],
  ['((git push))', 'ask', 'allow'],
  // Values that are joined to their option.
  ['timeout -k3 -sKILL 5 git status', 'allow', 'allow'],
  ['timeout -k3 5 git push', 'deny', 'deny'],
  ['timeout -k3 5 make', 'ask', 'allow'],
  ['nice -n5 git push', 'deny', 'deny'],
  ['nice -x5 ls', 'ask', 'ask'],
  // What cannot be parsed.
  ["git status 'x", 'ask', 'ask'],
  ['git push; if', 'deny', 'deny'],
  ['git status $(', 'ask', 'ask'],
  ['<<', 'ask', 'ask'],
]

test.each(tricks)('decide() takes %j apart', (command, whenSupervised, whenFull) => {
  expect([decide(supervised, bash(command)).effect, decide(full, bash(command)).effect]).toEqual([whenSupervised, whenFull])
})

test('decide() leaves what cannot be parsed to autonomy full where no rule on commands could speak of it', () => {
  const open = compilePolicy(policyOf([onCommand('allow', 'ls *')], { autonomy: 'full' }))
  expect(decide(open, bash("ls 'x")).effect).toBe('allow')
  const whole = compilePolicy(policyOf([{ on: 'tool', match: { tool: 'Bash' }, effect: 'allow' }]))
  expect(decide(whole, bash("ls 'x")).effect).toBe('allow')
})

test('decide() knows no limit that a long or deep command could pass below', () => {
  const nested = Array.from({ length: 12 }).reduce<string>((inner) => `bash -c ${JSON.stringify(inner)}`, 'git push')
  expect(decide(full, bash(nested)).effect).not.toBe('allow')
  expect(decide(full, bash(`${'ls;'.repeat(600)} git push`)).effect).not.toBe('allow')
  expect(decide(full, bash(`${'$('.repeat(5000)}git push${')'.repeat(5000)}`)).effect).not.toBe('allow')
})

// Each of these took half a minute and more once.
test.each([
  ['words', `git status ${'x '.repeat(100_000)}`],
  ['braces', '{a,'.repeat(80_000)],
  ['substitutions', '$('.repeat(100_000)],
  ['openings of a short one', '$('.repeat(8000)],
  ['backticks', '`'.repeat(16_000)],
])('decide() takes a command for anything when it is too long to be read: %s', { timeout: 10_000 }, (_, command) => {
  expect(bash(command).commands).toEqual([anything])
  expect(decide(supervised, bash(command)).effect).toBe('ask')
  expect(decide(full, bash(command)).effect).toBe('ask')
})

test.each([
  ['guesses', `npx ${'git -a '.repeat(2000)}$x`],
  ['options', `git ${'-a '.repeat(5000)}$x`],
])('decide() is done soon with many %s', { timeout: 10_000 }, (_, command) => {
  expect(decide(full, bash(command)).effect).not.toBe('allow')
})

test.each([
  ['docker compose down *', 'docker compose -f prod.yml down'],
  ['gh pr merge *', 'gh pr -R o/r merge 5'],
  ['npm run deploy *', 'npm run -s deploy'],
  ['git push', 'git -C x push'],
])('a denial of %j looks past options: %j', (pattern, command) => {
  const policy = compilePolicy(policyOf([onCommand('deny', pattern)], { autonomy: 'full' }))
  expect(decide(policy, bash(command)).effect).toBe('deny')
})

test('a denial without a star is of that command alone', () => {
  const policy = compilePolicy(policyOf([onCommand('deny', 'git push')], { autonomy: 'full' }))
  expect(decide(policy, bash('git push --dry-run')).effect).toBe('allow')
})

test('an allowance of printf or read covers none that sets how commands run', () => {
  const policy = compilePolicy(policyOf(['printf *', 'read *', 'ls *'].map((one) => onCommand('allow', one))))
  const decided = ['printf -v PATH x; ls', 'printf -vPATH x; ls', 'read PATH; ls', 'printf -v x y; ls', 'read line; ls'].map(
    (command) => decide(policy, bash(command)).effect,
  )
  expect(decided).toEqual(['ask', 'ask', 'ask', 'ask', 'allow'])
})

test('a wrapper and what it runs are allowed by a rule each, however its options are written', () => {
  const policy = compilePolicy(policyOf(['nice *', 'ionice *', 'make'].map((one) => onCommand('allow', one))))
  const commands = ['nice -n5 make', 'nice -n 5 make', 'nice -5 make', 'nice --adjustment=5 make', 'ionice -c2 -n7 nice make']
  expect(commands.map((command) => decide(policy, bash(command)).effect)).toEqual(commands.map(() => 'allow'))
  expect(decide(policy, bash('nice -n5 ls')).effect).toBe('ask')
})

test.each([
  ['[ *', "x='-v a[$(./x)] -o 1'; [ $x -eq 1 ]"],
  ['[ *', '[ $x = y ] && ls'],
  ['[ *', '[ -f *.ts ] && ls'],
  ['test *', 'test $(cat f) -eq 1'],
  ['test *', 'test -v "$x"'],
  ['export *', 'export LC_ALL=en_US.ISO-8859-1'],
  ['git fetch *', 'git fetch --upload-pack=./x .'],
  ['git fetch *', 'git fetch --upl=./x .'],
  ['git fetch *', 'git fetch --upload-p ./x .'],
  ['git fetch *', 'git fetch "$branch"'],
  ['git clone *', 'git clone --temp=x y'],
  ['git clone *', 'git clone --con core.pager=x y'],
  ['git push *', 'git push --rec=./x'],
  ['git rebase *', 'git rebase --ex ./x'],
  ['git grep *', 'git grep --open-files=./x y'],
  ['git grep *', 'git grep -lO./x y'],
  ['git status *', 'git --exec-path=. status'],
  ['git *', 'git -c alias.x=!sh x'],
  ['git *', 'git -c core.pager=./x log'],
  ['git *', 'git $x status'],
  ['sort *', 'sort --compr=./x f'],
  ['rg *', 'rg --pre ./x y'],
  ['tar *', 'tar xf a --to-com=./x'],
  ['tar *', 'tar xIf ./x a'],
  ['rsync *', 'rsync -ave ./x a b:'],
  ['split *', 'split --filt=./x f'],
  ['find *', 'find . -name $x'],
  ['sed *', "sed '1e ./x' f"],
  ['sed *', "sed -n 's/a/b/e' f"],
  ['sed *', 'sed -n 1p *'],
  ['awk *', `awk 'BEGIN { system("./x") }'`],
  ['awk *', `awk 'BEGIN { "./x" | getline }'`],
  ['./run *', 'cd sub && ./run'],
  ['./run *', 'env -C sub ./run'],
  ['export *', 'export PATH=.'],
  ['set *', 'set -k'],
  ['. *', '. x'],
  ['chroot *', 'chroot . ls'],
])('an allowance of %j is none for another program: %j', (pattern, command) => {
  const policy = compilePolicy(policyOf([onCommand('allow', pattern), onCommand('allow', 'ls *'), onCommand('allow', 'cd *')]))
  expect(decide(policy, bash(command)).effect).toBe('ask')
})

test.each([
  ['[ *', '[ "$x" -eq 1 ] && [ $? = 0 ] && [ -f "$x" ] && [ ${#x} -gt 2 ]'],
  ['export *', 'export LC_ALL=C.UTF-8 CI=1'],
  ['git push *', 'git push -u origin main'],
  ['git push *', 'git push --force-with-lease'],
  ['git fetch *', 'git fetch --all --prune'],
  ['git fetch *', 'git fetch -- "$remote"'],
  ['sort *', 'sort -rn -k2 f'],
  ['sed *', "sed -n '10,20p' f"],
  ['sed *', "sed -E 's/a+(b)/\\1/g; 1d' f"],
  ['sed *', "sed -i 's/a/b/' f"],
  ['awk *', "awk -F: '{print $1}' f"],
  ['tar *', 'tar -czf a.tgz src'],
  ['./run *', './run x'],
  ['/opt/run *', 'cd sub && /opt/run'],
])('an allowance of %j covers %j', (pattern, command) => {
  const policy = compilePolicy(policyOf([onCommand('allow', pattern), onCommand('allow', 'cd *')]))
  expect(decide(policy, bash(command)).effect).toBe('allow')
})

test('an allowance of a program of the workspace is for where the workspace is', () => {
  const policy = compilePolicy(policyOf([onCommand('allow', './run *')]))
  const at = (folder: string) => toolMeaning({ kind: 'tool', tool: 'Bash', input: { command: './run' } }, { folder })
  expect(['/workspace', '/workspace/sub'].map((folder) => decide(policy, at(folder)).effect)).toEqual(['allow', 'ask'])
})

test.each([
  ['git push --delete *', 'git push --del origin x', 'deny'],
  ['git commit --no-verify *', 'git commit --no-verif -m x', 'deny'],
  ['rm --recursive *', 'rm --recurs x', 'deny'],
  ['git push --force-with-lease=main *', 'git push --force-with=main', 'deny'],
  ['git commit --no-verify *', 'git commit -m x', 'allow'],
  ['git log --format=x*', 'git log --for=xy', 'deny'],
  ['git push --delete *', 'git push --delay', 'allow'],
])('a denial of %j holds for an option that is cut short: %j', (pattern, command, effect) => {
  const policy = compilePolicy(policyOf([onCommand('deny', pattern)], { autonomy: 'full' }))
  expect(decide(policy, bash(command)).effect).toBe(effect)
})

test('a search from above the workspace meets rules on what is in it', () => {
  const secret = { on: 'tool', match: { tool: '*', path: 'secret/*' }, effect: 'deny' } as const
  const policy = compilePolicy(policyOf([secret], { autonomy: 'full' }))
  const search = (path: string) => toolMeaning({ kind: 'tool', tool: 'Grep', input: { path, pattern: 'x' } })
  expect(['/', '/workspace', '/tmp'].map((path) => decide(policy, search(path)).effect)).toEqual(['ask', 'ask', 'allow'])
})

const onPath = (effect: 'allow' | 'deny', path: string) => ({ on: 'tool', match: { tool: '*', path }, effect }) as const
const readings: readonly (readonly [tool: string, input: Readonly<Record<string, unknown>>, denied: string, allowed: string])[] =
  [
    ['Read', { file_path: 'src/a.ts' }, 'allow', 'allow'],
    ['Read', { file_path: '/etc/passwd' }, 'deny', 'ask'],
    ['Read', { file_path: ' /etc/passwd\n' }, 'deny', 'ask'],
    ['Read', { file_path: ['/etc/passwd'] }, 'ask', 'ask'],
    ['Read', { file_path: '~/.ssh/id' }, 'deny', 'ask'],
    ['Read', { file_path: '/home/agent/.ssh/id' }, 'deny', 'ask'],
    ['Read', { file_path: '~/notes' }, 'allow', 'ask'],
    ['Grep', { pattern: '/etc/x' }, 'allow', 'allow'],
    ['Grep', { pattern: 'x', path: 'src' }, 'allow', 'allow'],
    ['Grep', { pattern: 'x', path: '~/.ssh' }, 'deny', 'ask'],
    ['Grep', { pattern: 'x', path: '~' }, 'ask', 'ask'],
    ['Grep', { pattern: 'x', path: '/home' }, 'ask', 'ask'],
    ['Grep', { pattern: 'x', path: '/etc' }, 'deny', 'ask'],
    ['Grep', { pattern: 'x', path: '/' }, 'ask', 'ask'],
    ['Grep', { pattern: 'x', path: 7 }, 'ask', 'ask'],
    ['LS', { path: '~/.ssh' }, 'deny', 'ask'],
    ['Glob', { pattern: 'src/**/[...slug]/*.ts' }, 'allow', 'allow'],
    ['Glob', { pattern: '/workspace/src/*' }, 'allow', 'allow'],
    ['Glob', { pattern: '/etc/**' }, 'deny', 'ask'],
    ['Glob', { pattern: '/etc/**', path: 'src' }, 'deny', 'ask'],
    ['Glob', { pattern: '/etc/passwd' }, 'deny', 'ask'],
    ['Glob', { pattern: '/et*/passwd' }, 'ask', 'ask'],
    ['Glob', { pattern: '/opt/../etc/*' }, 'deny', 'ask'],
    ['Glob', { pattern: '/opt/*/../../etc/*' }, 'ask', 'ask'],
    ['Glob', { pattern: '~/.ssh/*' }, 'deny', 'ask'],
    ['Glob', { pattern: '../etc/*' }, 'ask', 'ask'],
    ['Glob', { pattern: '{/etc,x}/*' }, 'ask', 'ask'],
    ['Glob', { pattern: ['/etc/*'] }, 'ask', 'ask'],
  ]
test('what a tool names is looked for from where the shell stands', () => {
  const policy = compilePolicy(policyOf([onPath('deny', 'secret/*')], { autonomy: 'full' }))
  const effectOf = (tool: string, input: Readonly<Record<string, unknown>>, folder: string) =>
    decide(policy, toolMeaning({ kind: 'tool', tool, input }, { folder })).effect
  expect(effectOf('Read', { file_path: 'a' }, '/workspace/secret')).toBe('deny')
  expect(effectOf('Read', { file_path: '../src/a' }, '/workspace/secret')).toBe('allow')
  expect(effectOf('Read', { file_path: 'secret/a' }, '/workspace/src')).toBe('allow')
  expect(effectOf('Grep', { pattern: 'x' }, '/workspace/secret')).toBe('deny')
  expect(effectOf('Grep', { pattern: 'x' }, '/workspace/src')).toBe('allow')
})

test('an allowance of a folder is none for a search from above it', () => {
  const policy = compilePolicy(policyOf([onPath('allow', '~*'), onPath('allow', 'src/*')]))
  const search = (path: string) =>
    decide(policy, toolMeaning({ kind: 'tool', tool: 'Grep', input: { path, pattern: 'x' } })).effect
  expect(['/', '/home', '~', '/workspace', 'src'].map(search)).toEqual(['ask', 'ask', 'allow', 'ask', 'allow'])
})

test.each(readings)('rules on paths see where %s %j looks', (tool, input, denied, allowed) => {
  const closed = compilePolicy(policyOf([onPath('deny', '/etc/*'), onPath('deny', '~/.ssh/*')], { autonomy: 'full' }))
  const open = compilePolicy(policyOf([onPath('allow', '/workspace/*')]))
  const meaning = toolMeaning({ kind: 'tool', tool, input })
  expect([decide(closed, meaning).effect, decide(open, meaning).effect]).toEqual([denied, allowed])
})

test('decide() reads a command that is as long as people write them', () => {
  const long = `git status ${'some-file '.repeat(1000)}`
  expect(decide(supervised, bash(long)).effect).toBe('allow')
  expect(decide(supervised, bash(`${long}; git push`)).effect).toBe('deny')
})
