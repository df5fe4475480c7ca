import { existsSync } from 'node:fs'
import { aptInFolder } from './debian.ts'
import { goModule } from './go.ts'
import { gradleBuild, mavenProject } from './maven.ts'

/** Debian's, as it is seen in a cell. */
export const hasPip = existsSync('/usr/bin/pip3')

/** What a person would type, with nothing set up before: each brings something from its registry and shows it. */
export const commands = {
  curl: 'curl -sS https://registry.npmjs.org/from-npm | grep -o "from-npm-1.2.3.tgz"',
  git: 'git clone -q https://github.com/somebody/public.git cloned && cat cloned/README',
  npm: 'mkdir n && cd n && npm init -y >/dev/null && npm install --no-fund from-npm >/dev/null && node -p "require(\'from-npm\')"',
  pip: '/usr/bin/pip3 install -q --disable-pip-version-check --target p from-pypi && PYTHONPATH=p /usr/bin/python3 -c "import from_pypi; print(from_pypi.said)"',
  apt: `${aptInFolder('$PWD/a')} && $APT update && $APT download from-debian && dpkg-deb -x from-debian_*.deb d && cat d/usr/share/from-debian/said`,
  cargo: `/usr/bin/cargo new -q --vcs none c && cd c && echo 'from-crates = "1.2.3"' >> Cargo.toml && echo 'fn main() { println!("{}", from_crates::SAID) }' > src/main.rs && /usr/bin/cargo run -q`,
  go: `mkdir g && cd g && go mod init example.org/mine 2>/dev/null && printf 'package main\\nimport "fmt"\\nimport from "${goModule}"\\nfunc main() { fmt.Println(from.Said) }\\n' > main.go && GONOSUMDB='example.org/*' go get ${goModule} && go run .`,
  pnpm: 'mkdir pn && cd pn && echo "{}" > package.json && ../pnpm add from-npm >/dev/null && node -p "require(\'from-npm\')"',
  gradle: `mkdir gr && cd gr && printf '%s' '${gradleBuild}' > build.gradle && touch settings.gradle && gradle -q --no-daemon show`,
  maven: `mkdir m && cd m && printf '%s' '${mavenProject.replaceAll('\n', ' ')}' > pom.xml && mvn -B -ntp validate | grep -o "BUILD SUCCESS"`,
} as const

/** What each of them shows when all went well. */
export const shown: Readonly<Record<keyof typeof commands, string>> = {
  curl: 'from-npm-1.2.3.tgz',
  git: 'cloned through the window',
  npm: 'npm brought this',
  pip: 'pip brought this',
  apt: 'apt brought this',
  cargo: 'cargo brought this',
  go: 'go brought this',
  pnpm: 'npm brought this',
  gradle: 'gradle brought this',
  maven: 'BUILD SUCCESS',
}
