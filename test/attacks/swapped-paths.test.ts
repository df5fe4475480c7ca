// Not one of the attacks that `anchorhold prove` carries out: it is the daemon that is attacked, on its way through a workspace.
import { copyTree, giveTree } from '@anchorhold/daemon/workspace/trees'
import { prepareWorkspace, revokeGrants } from '@anchorhold/daemon/workspace/workspace'
import { trialSpecs } from '@anchorhold/keeper/cells/trial'
import { execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { driverOf } from './driver-of.ts'

const isRoot = process.getuid?.() === 0
const fresh = { uid: 1_900_000_777, gid: 1_900_000_777 }
const hasAcl = existsSync('/usr/bin/setfacl')
const rounds = 100

let base = ''
let workspace = ''
let victim = ''
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'ah-swap-'))
  chmodSync(base, 0o755)
  workspace = join(base, 'workspace')
  victim = join(base, 'victim')
  for (const folder of [workspace, victim]) mkdirSync(folder)
  for (const name of ['a', 'b', 'c', 'd']) writeFileSync(join(victim, `secret-${name}`), 'canary', { mode: 0o644 })
})
afterEach(() => rmSync(base, { recursive: true }))

/** An agent at work in the workspace: it puts a link to the victim in the place of a folder and back, over and over, under many
 *  names, so that there is always one that is being passed. */
async function swapper(): Promise<Disposable> {
  const swap = `
    $| = 1; chdir $ARGV[0] or die; my $n = 40;
    for (1 .. $n) { mkdir "$_"; open my $f, ">", "$_/own"; symlink $ARGV[1], "link$_" }
    print "ready\\n";
    while (1) { for (1 .. $n) { rename "$_", "folder$_"; rename "link$_", "$_"; rename "$_", "link$_"; rename "folder$_", "$_" } }`
  const child = spawn('perl', ['-e', swap, workspace, victim], { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  return { [Symbol.dispose]: () => void child.kill('SIGKILL') }
}

describe('a folder that is swapped for a link while the daemon passes through', () => {
  test('does not lead a copy out of the workspace', async () => {
    using _ = await swapper()
    let copied = 0
    for (let round = 0; round < rounds; round++) {
      const to = join(base, `copy-${round}`)
      mkdirSync(to)
      // One that finds too much changed may fail; what it has copied until then is looked at all the same.
      await copyTree(workspace, to, { reader: null, writer: null }).catch(() => {})
      // find(1) follows no link; what the copy holds is what its own files hold.
      const files = execFileSync('find', [to, '-type', 'f'], { encoding: 'utf8' }).trim().split('\n')
      copied += files.length
      for (const file of files) expect(readFileSync(file, 'utf8')).not.toContain('canary')
      rmSync(to, { recursive: true })
    }
    expect(copied).toBeGreaterThan(rounds)
  })

  test.runIf(isRoot)('does not make root give away what it leads to', async () => {
    using _ = await swapper()
    for (let round = 0; round < rounds; round++) {
      await giveTree(workspace, fresh).catch(() => {})
      const owners = [victim, ...readdirSync(victim).map((name) => join(victim, name))].map((path) => statSync(path).uid)
      expect(new Set(owners)).toEqual(new Set([0]))
    }
    expect(statSync(workspace).uid).toBe(fresh.uid)
  })

  test.runIf(isRoot && hasAcl)('does not make root let a session into what it leads to, nor out of it', async () => {
    using _ = await swapper()
    const options = {
      asked: workspace,
      access: 'acl',
      own: join(base, 'own'),
      fresh,
      home: join(base, 'home'),
      reserved: [],
      within: null,
    } as const
    const access = () => execFileSync('getfacl', ['-n', '-p', '-R', victim], { encoding: 'utf8' })
    let granted = 0
    for (let round = 0; round < rounds; round++) {
      const { grants } = await prepareWorkspace(options).catch(() => ({ grants: [] as readonly string[] }))
      granted += grants.length
      expect(access()).not.toContain(`user:${fresh.uid}`)
      await revokeGrants(grants.length === 0 ? [workspace] : grants, fresh)
    }
    expect(granted).toBeGreaterThan(0)
  })
})

test.each(['workspace', 'home'] as const)('a cell does not start with a link where its %s was', async (which) => {
  await using specs = trialSpecs()
  const spec = await specs.make()
  rmSync(spec[which], { recursive: true })
  symlinkSync(victim, spec[which])
  await expect(driverOf('bwrap').start(spec, AbortSignal.timeout(10_000))).rejects.toMatchObject({
    code: 'cell_unavailable',
    message: expect.stringContaining('is not a folder') as string,
  })
})
