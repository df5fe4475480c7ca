import { execFileSync } from 'node:child_process'
import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import { coverWorkspace } from './covers.ts'
import { hiddenMemory } from './memory.ts'
import { veilOver } from './veil.ts'

let base: string
let workspace: string
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'anchorhold-filter-')))
  workspace = join(base, 'workspace')
  mkdirSync(workspace)
})
afterEach(() => {
  // What a test has closed, an ordinary user cannot look into.
  execFileSync('chmod', ['-R', 'u+rwX', '--', base])
  rmSync(base, { recursive: true, force: true })
})

const put = (path: string, text = 'hunter2') => {
  mkdirSync(join(workspace, path, '..'), { recursive: true })
  writeFileSync(join(workspace, path), text)
}
const cover = (filter: RepoFilter = 'standard') =>
  coverWorkspace(workspace, filter, join(base, 'covers'), hiddenMemory(join(base, 'memory'), filter))
const covered = async (filter: RepoFilter = 'standard') =>
  (await cover(filter))
    .map(({ path, by }) => [path.slice(workspace.length + 1), by.slice(base.length + 1).replace(/-\d+$/, '')])
    .toSorted(([a = ''], [b = '']) => a.localeCompare(b))

test('coverWorkspace() covers files with an empty file, folders with an empty folder, and nothing else', async () => {
  for (const path of ['.env', 'src/main.ts', 'deep/down/server.key', '.ssh/id_rsa', '.ssh/config']) put(path)
  expect(await covered()).toEqual([
    ['.env', 'covers/file'],
    ['.ssh', 'covers/folder'],
    ['deep/down/server.key', 'covers/file'],
  ])
  for (const { by } of (await cover()).filter(({ by: one }) => one.includes('/file-'))) expect(readFileSync(by, 'utf8')).toBe('')
})

test('coverWorkspace() has nothing to cover in a workspace without secrets', async () => {
  put('src/main.ts')
  expect(await covered()).toEqual([])
})

test('coverWorkspace() covers what a link of such a name leads to, and no place outside', async () => {
  put('plain.txt')
  symlinkSync('plain.txt', join(workspace, '.env'))
  symlinkSync('/etc/hostname', join(workspace, 'outside.pem'))
  symlinkSync('nowhere', join(workspace, 'dangling.key'))
  expect(await covered()).toEqual([['plain.txt', 'covers/file']])
})

test('coverWorkspace() covers the same file under every name', async () => {
  put('.env')
  mkdirSync(join(workspace, 'a'))
  linkSync(join(workspace, '.env'), join(workspace, 'a/harmless.txt'))
  expect(await covered()).toEqual([
    ['.env', 'covers/file'],
    ['a/harmless.txt', 'covers/file'],
  ])
})

test('coverWorkspace() shows a clean copy of git settings that hold a token, and leaves others alone', async () => {
  for (const name of ['HEAD', 'refs/heads/fix.key']) put(`.git/${name}`)
  put('.git/config', '[remote "origin"]\n\turl = https://x:hunter2@example.org/a.git\n')
  put('.git/modules/lib/config', '[core]\n\tbare = false\n')
  put('.git/objects/aa/server.pem')
  const [one, ...more] = await cover()
  expect(more).toEqual([])
  expect(one?.path).toBe(join(workspace, '.git/config'))
  expect(readFileSync(one!.by, 'utf8')).toContain('https://example.org/a.git')
})

test('coverWorkspace() refuses to start with more than it can cover', async () => {
  for (let at = 0; at <= 1000; at++) put(`keys/${at}.pem`)
  await expect(covered()).rejects.toThrow('more than the 1000')
})

const move = (from: string, to: string) => {
  mkdirSync(join(workspace, to, '..'), { recursive: true })
  renameSync(join(workspace, from), join(workspace, to))
}
const paths = async (filter: RepoFilter = 'standard') => (await covered(filter)).map(([path]) => path)
const withToken = '[remote "origin"]\n\turl = https://x:hunter2@example.org/a.git\n'

test.each(['node_modules', 'site-packages', '.venv', 'target', '.gradle', '.git/refs', '.git/x', 'deep/node_modules/a/target'])(
  'coverWorkspace() hides again what was moved into %s since',
  async (place) => {
    for (const path of ['apps/.env', 'apps/.aws/credentials', '.git/HEAD', '.git/config', '.git/objects/x']) put(path)
    expect(await paths()).toEqual(['.git/config', 'apps/.aws/credentials', 'apps/.env'])
    move('apps', `${place}/apps`)
    expect(await paths()).toEqual(['.git/config', `${place}/apps/.aws/credentials`, `${place}/apps/.env`].toSorted())
  },
)

test.each(['node_modules/a', 'site-packages', '.venv/lib', 'target', '.gradle', '.git/x'])(
  'coverWorkspace() hides what has always been in %s',
  async (place) => {
    put(`${place}/.env`)
    expect(await paths()).toEqual([`${place}/.env`])
  },
)

test.each([
  ['.aws/credentials', '.aws'],
  ['.docker/config.json', '.docker'],
  ['.kube/config', '.kube'],
  ['.cargo/credentials.toml', '.cargo'],
  ['.config/gh/hosts.yml', '.config/gh'],
])('coverWorkspace() hides %s again when its folder has another name', async (path, folder) => {
  put(path)
  expect(await paths()).toEqual([path])
  const now = path.slice(folder.length + 1)
  move(folder, 'x')
  expect(await paths()).toEqual([`x/${now}`])
  // Over and over, and also when somebody has written it anew in the meantime.
  rmSync(join(workspace, 'x', now))
  put(`x/${now}`, 'hunter3')
  move('x', 'target/y')
  expect(await paths()).toEqual([`target/y/${now}`])
  // A filter of another kind has nothing to do with it.
  expect(await paths({ denylist: ['*.nothing'], allowlist: [] })).toEqual([])
})

test('coverWorkspace() hides what a link in the place of a folder leads to', async () => {
  put('dotfiles/cloud/credentials')
  put('dotfiles/github/hosts.yml')
  put('own/file')
  symlinkSync('dotfiles/cloud', join(workspace, '.aws'))
  mkdirSync(join(workspace, '.config'))
  symlinkSync('../dotfiles/github', join(workspace, '.config/gh'))
  expect(await paths()).toEqual(['dotfiles/cloud/credentials', 'dotfiles/github/hosts.yml'])
  symlinkSync('own', join(workspace, 'private'))
  expect(await paths({ denylist: ['private/**'], allowlist: [] })).toEqual(['own'])
})

test('coverWorkspace() follows links that lead round and round no further than a pattern goes', async () => {
  put('d/credentials')
  put('d/hosts.yml')
  put('d/other')
  for (const name of ['.aws', '.kube', '.cargo', '.docker', '.config', 'gh']) symlinkSync('.', join(workspace, 'd', name))
  expect(await paths()).toEqual(['d/credentials', 'd/hosts.yml'])
})

test('coverWorkspace() refuses links that lead to one another in more ways than it can look at', async () => {
  // A pattern with folders of any name in between has no end, and each of these links doubles the ways.
  put('d/file')
  for (const name of ['a', 'b']) symlinkSync('.', join(workspace, 'd', name))
  const filter = { denylist: ['a/**/secret', 'b/**/secret'], allowlist: [] }
  await expect(cover(filter)).rejects.toThrow('too many ways')
})

test('veilOver() goes on without a look where there can be none any more', async () => {
  const veil = veilOver({ workspace, filter: 'standard', folder: join(base, 'covers'), memory: join(base, 'memory') })
  await veil.cover()
  rmSync(workspace, { recursive: true })
  expect([veil.watches, await veil.uncovered(), veil.watches]).toEqual([true, [], false])
  await expect(veil.cover()).rejects.toThrow('ENOENT')
})

test.each([
  ['a file', () => writeFileSync(join(workspace, 'config'), '')],
  ['a link to itself', () => symlinkSync('config', join(workspace, 'config'))],
])('coverWorkspace() looks elsewhere for what lay in a folder that has become %s', async (_, change) => {
  put('config/.aws/credentials')
  expect(await paths()).toEqual(['config/.aws/credentials'])
  move('config/.aws', 'elsewhere')
  rmSync(join(workspace, 'config'), { recursive: true })
  change()
  expect(await paths()).toEqual(['elsewhere/credentials'])
})

test('coverWorkspace() passes by a name that is no text and would be too long as one', async () => {
  put('.env')
  execFileSync('perl', ['-e', 'open F, ">" . "\\xff" x 200 or die'], { cwd: workspace })
  expect(await paths()).toEqual(['.env'])
})

test('coverWorkspace() hides a folder where a name that is no text leads to one too long to be told from what was hidden', async () => {
  put('.aws/credentials')
  expect(await paths()).toEqual(['.aws/credentials'])
  // The folder can be listed, and what is in it be named no more: 4096 bytes are a path.
  const script = `my $left = 4090 - length("$ARGV[0]/some/x"); mkdir "some"; chdir "some"; mkdir "\\xff"; chdir "\\xff";
    for (; $left > 400; $left -= 201) { mkdir "d" x 200; chdir "d" x 200 }
    mkdir "d" x ($left - 202); chdir "d" x ($left - 202); rename "$ARGV[0]/.aws", "d" x 200 or die`
  execFileSync('perl', ['-e', script, workspace], { cwd: workspace })
  expect(await paths()).toEqual(['some'])
})

test.each([
  ['another name and a link in its place', () => (move('.git', 'g'), symlinkSync('g', join(workspace, '.git'))), 'g/config'],
  [
    'a link in the place of its settings',
    () => (move('.git/config', 'c'), symlinkSync('../c', join(workspace, '.git/config'))),
    'c',
  ],
  ['the name of a bare repository', () => move('.git', 'x.git'), 'x.git/config'],
  ['no objects any more', () => (move('.git', 'g'), move('g/objects', 'o')), 'g/config'],
])('coverWorkspace() shows a clean copy of the settings of a repository that has %s', async (_, change, path) => {
  for (const name of ['HEAD', 'objects/x']) put(`.git/${name}`)
  put('.git/config', withToken)
  expect(await paths()).toEqual(['.git/config'])
  change()
  const [one, ...more] = await cover()
  expect([one?.path, more]).toEqual([join(workspace, path), []])
  expect(readFileSync(one!.by, 'utf8')).toContain('https://example.org/a.git')
})

test('coverWorkspace() hides a folder that is too deep to look into, or whose names are no text, where secrets may be in it', async () => {
  put('apps/.env')
  expect(await paths()).toEqual(['apps/.env'])
  const name = 'd'.repeat(250)
  execFileSync(
    'sh',
    ['-c', `mkdir top && mv apps top/ && for i in $(seq 20); do mkdir n && mv top n/${name} && mv n top; done`],
    {
      cwd: workspace,
    },
  )
  expect(await paths()).toEqual([expect.stringMatching(/^top\/(d+\/){10,12}d+$/)])
  rmSync(join(workspace, 'top'), { recursive: true })
  put('some/apps/.env')
  execFileSync('perl', ['-e', 'mkdir "some/\\xff"; rename "some/apps", "some/\\xff/apps" or die'], { cwd: workspace })
  expect(await paths()).toEqual(['some'])
  execFileSync('perl', ['-e', 'rename "some/\\xff", "\\xff" or die'], { cwd: workspace })
  await expect(paths()).rejects.toThrow('cannot look into')
})

test('coverWorkspace() leaves names that are no text alone where nothing is to be hidden', async () => {
  execFileSync('perl', ['-e', 'mkdir "\\xff"; open F, ">\\xff/file"'], { cwd: workspace })
  expect(await paths()).toEqual([])
})

test('coverWorkspace() shows the certificates that packages bring along, and no private key', async () => {
  put('.venv/lib/certifi/cacert.pem', '-----BEGIN CERTIFICATE-----\n')
  put('.venv/lib/both.pem', '-----BEGIN CERTIFICATE-----\n-----BEGIN RSA PRIVATE KEY-----\n')
  put('own.pem', '-----BEGIN CERTIFICATE-----\n')
  expect(await paths()).toEqual(['.venv/lib/both.pem', 'own.pem'])
})

test('coverWorkspace() forgets what is gone', async () => {
  put('.aws/credentials')
  const memory = hiddenMemory(join(base, 'memory'), 'standard')
  expect(await paths()).toEqual(['.aws/credentials'])
  rmSync(join(workspace, '.aws'), { recursive: true })
  expect(await paths()).toEqual([])
  expect(await memory.read()).toHaveLength(1)
  for (let start = 0; start < 5; start++) await paths()
  expect(await memory.read()).toEqual([])
})

test('veilOver() tells each file that came since once', async () => {
  put('.env')
  const veil = veilOver({ workspace, filter: 'standard', folder: join(base, 'covers'), memory: join(base, 'memory') })
  expect(await veil.cover()).toHaveLength(1)
  expect(await veil.uncovered()).toEqual([])
  put('later/id_rsa')
  expect(await veil.uncovered()).toEqual(['later/id_rsa'])
  expect(await veil.uncovered()).toEqual([])
})

test('coverWorkspace() covers a folder that was closed as a whole, and does not forget what was in it', async () => {
  const modes = { none: '000', read: '600', pass: '100' }
  for (const folder of [...Object.keys(modes), 'open']) put(`${folder}/.env`)
  expect(await covered()).toHaveLength(4)
  for (const [folder, mode] of Object.entries(modes)) {
    renameSync(join(workspace, folder, '.env'), join(workspace, folder, 'plain'))
    execFileSync('chmod', [mode, join(workspace, folder)])
  }
  // More often than what is gone is looked for.
  const seen = asNobody(
    `for (let i = 0; i < 8; i++) console.log((await cover()).map(({ path }) => path.slice(workspace.length + 1)).toSorted().join())`,
  )
  expect(new Set(seen.trim().split('\n'))).toEqual(new Set(['none,open/.env,pass,read']))
})

/** Runs a script as a user for whom modes count; root passes by all of them. Who that is may not reach the sources. */
function asNobody(script: string): string {
  const asRoot = process.getuid?.() === 0
  if (asRoot) execFileSync('chown', ['-R', '65534:65534', base])
  const sources = ['covers', 'memory'].map((name) => import.meta.resolve(`./${name}.ts`))
  const prelude = `const [{ coverWorkspace }, { hiddenMemory }] = await Promise.all(${JSON.stringify(sources)}.map((url) => import(url)))
    const [base, workspace] = ${JSON.stringify([base, workspace])}
    const cover = () => coverWorkspace(workspace, 'standard', base + '/covers', hiddenMemory(base + '/memory', 'standard'))
    if (${asRoot}) process.setgid(65534), process.setuid(65534)\n`
  return execFileSync(process.execPath, ['--input-type=module', '--eval', prelude + script], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: '/',
  })
}
