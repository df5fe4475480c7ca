/** Programs for bash, out of pieces that are ordinary, and pieces by which bash was ever made to run or change something. */
export function shellProgram(random: () => number): string {
  const below = (n: number) => Math.floor(random() * n)
  const one = <T>(list: readonly T[]): T => list[below(list.length)]!
  const chance = (share: number) => random() < share
  /** Some programs are ordinary all through, others are full of tricks. */
  const hostility = one([0, 0, 0, 0.05, 0.15, 0.5])
  const some = (most: number, make: () => string, between = ' ') => Array.from({ length: below(most + 1) }, make).join(between)

  const name = () => one(['a', 'x', 'f', 'PATH', 'IFS', 'BASH_ENV', 'GIT_PAGER', 'LD_PRELOAD', 'PS4', 'NODE_ENV', 'CI'])
  /** What does harm where it is read as arithmetic. */
  const sum = () =>
    one(['PATH=1', 'PATH=0', 'a[PATH=1]', 'x=PATH=1', '1,PATH=2', 'PATH++', 'a', '1', '1 + 2', '2 * (3)', '$x', 'a[$(./git)]'])
  const expansion = (depth: number): string =>
    one([
      () => '$x',
      () => '"$x"',
      () => '"${a}"',
      () => '${x:-y}',
      () => '"${x%.ts}"',
      () => `$((${chance(0.5) ? '1 + 2' : sum()}))`,
      () => `"$(${list(depth + 1)})"`,
      () => `$(${list(depth + 1)})`,
      () => `\`${command(depth + 1).replaceAll(/[`\\]/g, '')}\``,
      () => '~/x',
      () => '*.ts',
      () => 'sub/*',
      () => '{a,b}',
      () => 'a{1..3}',
      () => `<(${list(depth + 1)})`,
    ])()
  const trick = (depth: number): string =>
    one([
      () => `\${a[${sum()}]}`,
      () => `\${a:${sum()}}`,
      () => `\${a:0:${sum()}}`,
      () => `\${#a[${sum()}]}`,
      () => `\${!x}`,
      () => `\${!a@}`,
      () => `\${x@P}`,
      () => `\${x@${one(['A', 'Q', 'E', 'a'])}}`,
      () => `\${${name()}:=1}`,
      () => `\${${name()}=1}`,
      () => `\${x:?y}`,
      () => `\${x^^}`,
      () => `\${x/a/$(${command(depth + 1)})}`,
      () => `\${x//a[${sum()}]/b}`,
      () => `$[${sum()}]`,
      () => `$'\\x2e\\x2fgit'`,
      () => `$'a\\'b'`,
      () => `$"x"`,
      () => `@(a|b)`,
      () => `!(a)`,
      () => `>(${command(depth + 1)})`,
      () => `{a,$(./git)}`,
      () => `'$(./git)'`,
      () => `\${x:-\`./git\`}`,
      () => `"\${a[\${x:=PATH=1}]}"`,
      () => `$_`,
      () => `!!`,
      () => `!git`,
      () => `\${|./git;}`,
      () => `\${ ./git; }`,
    ])()
  const plain = () =>
    one([
      'a',
      'b.ts',
      '-s',
      '--all',
      'words',
      "'x y'",
      '"x y"',
      'a\\ b',
      "'it'\\''s'",
      '-n',
      '--',
      '1',
      '#x',
      'a#b',
      '.',
      'status',
      '""',
      '=',
      '+',
      ';x'.slice(1),
    ])
  const word = (depth: number): string => {
    if (chance(hostility)) return trick(depth)
    return chance(0.2) && depth < 3 ? expansion(depth) : plain()
  }
  const words = (depth: number, most = 3) => some(most, () => word(depth))

  const programs = [
    'git status',
    'git log',
    'ls',
    'cat',
    'echo',
    'make',
    'npm run',
    'true',
    'printf %s',
    '"git" status',
    "g'it' status",
    'g\\it log',
    './run',
  ]
  const simple = (depth: number): string => `${one(programs)} ${words(depth)}`.trim()
  const wrapped = (depth: number): string =>
    one([
      () => `timeout 5 ${simple(depth)}`,
      () => `nice -n 5 ${simple(depth)}`,
      () => `env CI=1 ${simple(depth)}`,
      () => `env -i ${simple(depth)}`,
      () => `command ${simple(depth)}`,
      () => `echo a | xargs ${one(['ls', 'cat', 'git status', 'git', './git', 'env', 'sh -c ls'])}`,
      () => `echo a | xargs -I{} ${one(['ls {}', '{}', 'git status {}', "sh -c '{}'"])}`,
      () =>
        `find . -name a ${one(['', '-exec cat {} \\;', '-exec ./git \\;', '-exec {} \\;', '-execdir ./run \\;', '-exec cat {} +'])}`,
      () => `bash -c ${quoted(list(depth + 1))}`,
      () => `sh -c ${quoted(list(depth + 1))}`,
      () => `sort ${one(['words', '--compress-program=./git words', '--comp ./git words', '-S1 words', '$x'])}`,
      () => `sed -n ${one(['1,2p', "'1e ./git'", "'s/PATH/x/e'", "'s/a/b/p'", "'/x/d;1p'", '$x'])} words`,
      () => `awk ${one(["'{print $1}'", `'BEGIN { system("./git") }'`, `'{ "./git" | getline }'`, '$x'])} words`,
    ])()
  const harm = (depth: number): string =>
    one([
      () => `[[ ${sum()} -eq ${sum()} ]]`,
      () => `[[ -v ${sum()} ]]`,
      () => `[[ -n ${word(depth)} || ${sum()} -lt 3 ]]`,
      () => `[[ a =~ $x ]]`,
      () => `[ -v 'a[$(./git)]' ]`,
      () => `[ ${sum().replaceAll(' ', '')} -eq 1 ]`,
      () => `[ $x -eq 1 ]`,
      () => `test -v "a[\${x:=PATH=1}]"`,
      () => `((${sum()}))`,
      () => `let ${sum().replaceAll(' ', '')}`,
      () => `for ((${sum()}; 0; )); do ls; done`,
      () => `for ${name()} in 1 .; do ${simple(depth)}; done`,
      () => `select ${name()} in 1; do ls; done <<< 1`,
      () => `case x in \${PATH:=1}) ls;; *) git status;; esac`,
      () => `case ${word(depth)} in ${word(depth)}) ls;; esac`,
      () => `coproc ${name()} { ls; }`,
      () => `coproc ./git`,
      () => `printf -v ${name()} 1`,
      () => `printf '%s' -v ${name()}`,
      () => `printf "$x" y`,
      () => `read ${name()} <<< 1`,
      () => `read -r x < words`,
      () => `read -a a < words`,
      () => `IFS=/ read -r ${name()} < words`,
      () => `mapfile -C ./git -c 1 a < words`,
      () => `declare -n r=PATH; r=1`,
      () => `declare -i i=PATH=1`,
      () => `declare ${name()}=1`,
      () => `export ${name()}=1`,
      () => `${name()}=1`,
      () => `${name()}=. ${simple(depth)}`,
      () => `${name()}+=:1`,
      () => `a[${sum().replaceAll(' ', '')}]=1`,
      () => `a=([${sum().replaceAll(' ', '')}]=1)`,
      () => `x=${quoted(sum())}`,
      () => `x='-exec ./git ;'; find . $x`,
      () => `x='-v a[$(./git)] -o 1'; [ $x -eq 1 ]`,
      () => `x='-v a[$(./git)]'; test $x`,
      () => `x=$(cat words); [ ${one(['', '-f ', '! '])}$x ${one(['', '-eq 1 ', '= a '])}]`,
      () => `x=./git; $x`,
      () => `git() { ./git; }`,
      () => `function ls { ./ls; }`,
      () => `command_not_found_handle() { ./x; }; nosuch`,
      () => `shopt -s expand_aliases; alias git=./git\ngit status`,
      () => `hash -p ./git git`,
      () => `enable -f ./x git`,
      () => `enable -n echo`,
      () => `trap ./git EXIT`,
      () => `trap 'PATH=1' DEBUG`,
      () => `exec ./git`,
      () => `exec ${simple(depth)}`,
      () => `eval ${quoted(command(depth + 1))}`,
      () => `source ./script`,
      () => `. script`,
      () => `cd sub && ./run`,
      () => `cd sub; git status`,
      () => `cd 1 && ./git status`,
      () => `pushd sub; ./run; popd`,
      () => `set -k; ls PATH=1`,
      () => `set -a`,
      () => `set -o posix`,
      () => `set -eu`,
      () => `unset PATH`,
      () => `shopt -s extglob`,
      () => `PATH=1; git status`,
      () => `BASH_ENV=script bash -c 'git status'`,
      () => `env PATH=1 git status`,
      () => `env -S './git'`,
      () => `env 'BASH_FUNC_git%%=() { ./git; }' bash -c 'git status'`,
      () => `ENV=script sh -i -c 'git status'`,
      () => `bash -kc 'git status PATH=1'`,
      () => `bash -O extglob -c 'ls !(a)'`,
      () => `bash ./git`,
      () => `bash < script`,
      () => `echo ./git | bash`,
      () => `command eval ./git`,
      () => `builtin eval ./git`,
      () => `ls {PATH}< words`,
      () => `ls > out`,
      () => `{ ls; } 1< words`,
      () => `time ${simple(depth)}`,
      () => `! ${simple(depth)}`,
      () => `time -p -- ${simple(depth)}`,
      () => `ls # ; ./git`,
      () => `ls \\\n a`,
      () => `gi\\\nt status`,
      () => `ls\r\n./git`,
      () => `ls\u00a0a`,
      () => `ls\u2003; ls`,
      () => `ls\u000b./git`,
      () => `echo "a\\\n$(./git)"`,
      () => `cat <<E\n\${PATH:=1}$(ls)\nE`,
      () => `cat <<E\n$((PATH=1))\nE`,
      () => `cat <<'E'\n$(./git)\nE`,
      () => `cat <<E'F'\n$(./git)\nEF`,
      () => `cat <<-E\n\t$(./git)\n\tE`,
      () => `cat <<E\\\nF\n$(./git)\nEF`,
      () => `cat <<< \${a[PATH=1]}`,
      () => `cat <<E; git status\nx\nE\n./git`,
      () => `cat <<A <<'B'\n$(ls)\nA\n$(./git)\nB`,
      () => `ls $(cat <<'E'\n)\nE\n)`,
      () => `echo "$(echo ")" # )\n)"`,
      () => `echo $(( (1) ))`,
      () => `echo $((ls) )`,
      () => `((ls) )`,
      () => `if (( PATH=1 )); then ls; fi`,
      () => `echo \${x:$((PATH=1))}`,
      () => `getopts a PATH`,
      () => `wait -n -p PATH`,
    ])()
  const command = (depth: number): string => {
    if (chance(hostility)) return harm(depth)
    const kind = random()
    if (depth >= 3 || kind < 0.55) return simple(depth)
    if (kind < 0.7) return wrapped(depth)
    return one([
      () => `(${list(depth + 1)})`,
      () => `{ ${list(depth + 1)}; }`,
      () => `if ${command(depth + 1)}; then ${list(depth + 1)}; else ${list(depth + 1)}; fi`,
      () => `if [ -f words ]; then ${list(depth + 1)}; fi`,
      () => `if [[ -n "$x" && a == a* ]]; then ${list(depth + 1)}; fi`,
      () => `for f in a b; do ${list(depth + 1)}; done`,
      () => `for f in ${words(depth + 1)}; do ${list(depth + 1)}; done`,
      () => `while read -r f; do ${list(depth + 1)}; done < words`,
      () => `while false; do ${list(depth + 1)}; done`,
      () => `[ "$x" = a ] && ${command(depth + 1)}`,
      () => `${simple(depth)} 2>/dev/null`,
      () => `${simple(depth)} > /dev/null 2>&1`,
      () => `cat <<'E'\n$(./git) \`./git\`\nE`,
      () => `cat <<E\n$x \\$(./git)\nE`,
      () => `x=${word(depth)}; ${simple(depth)}`,
      () => `CI=1 ${simple(depth)}`,
      () => `${simple(depth)} &`,
      () => `cd sub && ${simple(depth)}`,
    ])()
  }
  const list = (depth: number): string => {
    let text = command(depth)
    for (let left = below(depth === 0 ? 3 : 2); left > 0; left--)
      text += one([' && ', ' || ', '; ', '\n', ' | ', ' |& ', ' & ']) + command(depth)
    return text
  }
  /** Now and then a character is put in, taken out or doubled somewhere, as nobody would think of it. */
  const mutated = (text: string): string => {
    let out = text
    for (let times = chance(hostility) ? 1 + below(3) : 0; times > 0; times--) {
      const at = below(out.length + 1)
      const bit = one([
        '\\',
        '\n',
        '"',
        "'",
        '$',
        '`',
        '(',
        ')',
        '{',
        '}',
        ';',
        '&',
        '|',
        '<',
        '>',
        '#',
        '!',
        '*',
        '[',
        ']',
        '=',
        ' ',
        '\\\n',
        '$(',
        '${',
        '\r',
        '\u00a0',
        '~',
        '%',
        '^',
        '@',
        '',
      ])
      out = out.slice(0, at) + bit + out.slice(at + below(2))
    }
    return out
  }
  return mutated(list(0))
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
