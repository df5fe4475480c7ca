// Not one of the attacks that `anchorhold prove` carries out: it is the keeper that is attacked, as it looks for what its filter hides.
import { coverWorkspace } from '@anchorhold/keeper/repo-filter/covers'
import { hiddenMemory } from '@anchorhold/keeper/repo-filter/memory'
import { veilOver } from '@anchorhold/keeper/repo-filter/veil'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

const rounds = 300

let base = ''
let workspace = ''
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'ah-flipped-')))
  workspace = join(base, 'workspace')
  for (const path of ['workspace', 'other']) {
    mkdirSync(join(base, path, '.git/objects'), { recursive: true })
    mkdirSync(join(base, path, 'node_modules'), { recursive: true })
    writeFileSync(join(base, path, '.git/HEAD'), 'ref: refs/heads/main\n')
    const url = `https://x:hunter2@${path}.example/a.git`
    writeFileSync(join(base, path, '.git/config'), `[remote "origin"]\n\turl = ${url}\n`)
    writeFileSync(join(base, path, 'node_modules/all.pem'), '-----BEGIN CERTIFICATE-----\n')
  }
  // What only the other one has, by a name that is hidden.
  writeFileSync(join(base, 'other/.git/their.key'), 'canary')
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

/** An agent at work: what is looked for is a file, a fifo and a link into the folder of another session, one after the other and without a
 *  pause, and so is the folder that it lies in. */
async function flipper(): Promise<Disposable> {
  const flip = `
    use POSIX; $| = 1; my ($own, $other) = @ARGV; chdir $own or die;
    for (".git/config", "node_modules/all.pem") { mkfifo "$_.fifo", 0644; symlink "$other/$_", "$_.link"; }
    symlink "$other/.git", "git.link"; print "ready\\n";
    while (1) {
      for (".git/config", "node_modules/all.pem") {
        for my $kind ("fifo", "link") { rename $_, "$_.own"; rename "$_.$kind", $_; rename $_, "$_.$kind"; rename "$_.own", $_ }
      }
      rename ".git", "git.own"; rename "git.link", ".git"; rename ".git", "git.link"; rename "git.own", ".git"
    }`
  const child = spawn('perl', ['-e', flip, workspace, join(base, 'other')], { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  return { [Symbol.dispose]: () => void child.kill('SIGKILL') }
}

test('a name that is flipped to a fifo holds no keeper up, and one to a link shows a cell nothing of another session', async () => {
  using _ = await flipper()
  const [covers, memory] = [join(base, 'covers'), join(base, 'memory')]
  let shown = 0
  for (let round = 0; round < rounds; round++) {
    const found = await coverWorkspace(workspace, 'standard', covers, hiddenMemory(memory, 'standard'))
    for (const { path, by } of found) {
      expect(path.startsWith(`${workspace}/`)).toBe(true)
      expect(path).not.toContain('their.key')
      if (!by.includes('git-config') || !existsSync(by)) continue
      const text = readFileSync(by, 'utf8')
      if (text !== '') shown++
      expect(text).not.toContain('other.example')
    }
  }
  expect(shown).toBeGreaterThan(0)
})

test('what is flipped after a turn holds its end up no longer, and tells no names of another session', async () => {
  const veil = veilOver({ workspace, filter: 'standard', folder: join(base, 'covers'), memory: join(base, 'memory') })
  await veil.cover()
  using _ = await flipper()
  for (let round = 0; round < rounds; round++) expect((await veil.uncovered()).join()).not.toContain('their.key')
})
