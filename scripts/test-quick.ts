// Tests what a change can have broken: the rules of the house, and each test of the changed files or of what imports them. Suites with real
// processes (*.process.test.ts) count only in a package that was changed.
//   npm run test:quick [-- SINCE]        SINCE is a commit; without it, what is not committed yet, or else the last commit
import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'

const [since] = process.argv.slice(2)
const git = (...args: readonly string[]) =>
  execFileSync('git', [...args], { encoding: 'utf8' })
    .split('\n')
    .filter(Boolean)
const from = (commit: string) => [
  ...git('diff', '--name-only', '--diff-filter=d', commit, '--'),
  ...git('ls-files', '--others', '--exclude-standard'),
]

const notCommitted = from('HEAD')
const changed = since !== undefined ? from(since) : notCommitted.length > 0 ? notCommitted : from('HEAD~1')
const sources = changed.filter((path) => /\.(tsx?|mjs)$/.test(path))
const isChanged = new Set(sources.map((path) => /^packages\/(\w+)\//.exec(path)?.[1]))
const others = readdirSync('packages').filter((name) => !isChanged.has(name))
console.log(
  `${sources.length} changed files${sources.length > 0 ? `, in ${[...isChanged].filter(Boolean).join(', ') || 'no package'}` : ''}`,
)

run('--project', 'house')
if (sources.length > 0) {
  const excluded = others.flatMap((name) => ['--exclude', `packages/${name}/src/**/*.process.test.ts`])
  const projects = ['unit', 'simulation'].flatMap((name) => ['--project', name])
  run('related', ...sources, '--run', '--passWithNoTests', ...projects, ...excluded)
}

function run(...args: readonly string[]): void {
  const { status } = spawnSync('npx', ['vitest', ...(args.includes('related') ? [] : ['run']), ...args], { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
