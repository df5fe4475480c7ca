import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bwrapDriver } from '../cells/bwrap/bwrap.ts'
import { run, trialSpecs } from '../cells/trial.ts'
import { coverWorkspace } from './covers.ts'
import { hiddenMemory } from './memory.ts'
import { keepTracked } from './tracked.ts'

const secret = 'SECRET=hunter2\n'
const files = {
  'f.txt': 'one\n',
  '.env': secret,
  'sub/.env': secret,
  '.aws/credentials': secret,
  'with [odd] name/.env': secret,
  'run.key': secret,
}

/** A cell of bubblewrap in a repository that tracks what is hidden there, and its git. */
async function inRepository(
  look: (
    git: (script: string) => Promise<string>,
    told: readonly string[],
    onHost: (...args: string[]) => string,
  ) => Promise<void>,
) {
  await using specs = trialSpecs()
  const made = await specs.make()
  const spec = { ...made, workspace: realpathSync(made.workspace) }
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'ah-tracked-')))
  onTestFinished(() => void execFileSync('rm', ['-rf', base]))
  chmodSync(base, 0o755)
  const onHost = (...args: string[]) =>
    execFileSync('git', ['-c', 'safe.directory=*', '-c', 'user.name=x', '-c', 'user.email=x@x', ...args], {
      cwd: spec.workspace,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
    })
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(spec.workspace, path)), { recursive: true })
    writeFileSync(join(spec.workspace, path), text)
  }
  chmodSync(join(spec.workspace, 'run.key'), 0o755)
  onHost('init', '-q', '-b', 'main')
  onHost('add', '-A')
  onHost('commit', '-qm', 'first')
  onHost('branch', 'other')
  writeFileSync(join(spec.workspace, 'new.pem'), secret)
  if (spec.runAs !== null) execFileSync('chown', ['-R', `${spec.runAs.uid}:${spec.runAs.gid}`, spec.workspace])
  const covers = await coverWorkspace(
    spec.workspace,
    'standard',
    join(base, 'covers'),
    hiddenMemory(join(base, 'memory'), 'standard'),
  )
  await using cell = await bwrapDriver().start({ ...spec, covers }, AbortSignal.timeout(20_000))
  const [home, cwd] = [cell.place(spec.home), cell.place(spec.workspace)]
  writeFileSync(join(spec.home, '.gitconfig'), '[user]\n\tname = x\n\temail = x@x\n[safe]\n\tdirectory = *\n', { mode: 0o666 })
  if (spec.runAs !== null) execFileSync('chown', [`${spec.runAs.uid}:${spec.runAs.gid}`, join(spec.home, '.gitconfig')])
  const told = await keepTracked(cell, { workspace: spec.workspace, home: spec.home, covers })
  const git = async (script: string) => {
    const { output, said, code } = await run(cell, ['/bin/sh', '-c', script], { env: { PATH: '/usr/bin:/bin', HOME: home }, cwd })
    return `${output}${code === 0 ? '' : `${said}(${code})`}`
  }
  await look(git, told, onHost)
  // Nothing was done to what is hidden, whatever git did.
  for (const [path, text] of Object.entries(files))
    if (path !== 'f.txt') expect(readFileSync(join(spec.workspace, path), 'utf8')).toBe(text)
}

test('keepTracked() has git take what is hidden for unchanged, and tells what is tracked', async () => {
  await inRepository(async (git, told) => {
    expect(told.toSorted()).toEqual(
      Object.keys(files)
        .filter((path) => path !== 'f.txt')
        .toSorted(),
    )
    expect(await git('cat .env .aws/credentials | tr -d "\\n"; git status --short')).toBe('')
  })
})

test.each([
  ['commit -a', 'echo two >> f.txt; git commit -qam two'],
  ['add -A', 'echo two >> f.txt; echo g > g; git add -A; git add .; git commit -qm two; git rm -q g; git commit -qm less'],
  [
    'add -u after everything was touched',
    'echo two >> f.txt; find . -path ./.git -prune -o -type f -exec touch {} + 2>/dev/null; git add -u; git commit -qm two',
  ],
  ['stash', 'echo two >> f.txt; git stash -q && git stash pop -q; git commit -qam two'],
  ['checkout .', 'echo lost >> f.txt; git checkout -q . && echo two >> f.txt; git commit -qam two'],
  ['reset --hard', 'echo lost >> f.txt; git reset -q --hard && echo two >> f.txt; git commit -qam two'],
  [
    'another branch',
    'git checkout -q other && echo two >> f.txt && git commit -qam two; git checkout -q main && git merge -q other',
  ],
])('keepTracked() has %s change nothing that is hidden', async (_, script) => {
  await inRepository(async (git, _told, onHost) => {
    expect(await git(script)).toBe('')
    expect(await git('git status --short; git diff HEAD~1 --stat=80 | tail -1')).toMatch(/^ 1 file changed/)
    for (const path of Object.keys(files).filter((one) => one !== 'f.txt')) expect(onHost('show', `HEAD:${path}`)).toBe(secret)
    expect(onHost('show', 'HEAD:f.txt')).toBe('one\ntwo\n')
    // As the owner sees it: the index is theirs, and says nothing else than before.
    expect(onHost('status', '--short')).toBe('?? new.pem\n')
    expect(onHost('ls-files', '-v')).toMatch(/^(?:H .*\n)+$/)
  })
})

test('keepTracked() has git add nothing of what is hidden and was never tracked', async () => {
  await inRepository(async (git) => {
    expect(await git('git add -f new.pem')).toContain('clean filter')
    expect(await git('git add -A; git status --short')).toBe('')
  })
})
