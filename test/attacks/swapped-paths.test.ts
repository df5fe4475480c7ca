// Not one of the attacks that `anchorhold prove` carries out: it is the daemon that is attacked, on its way through a workspace.
import { holdFolder } from '@anchorhold/daemon/workspace/held-folder'
import { copyTree, giveTree } from '@anchorhold/daemon/workspace/trees'
import { prepareWorkspace, revokeGrants, type WorkspaceOptions } from '@anchorhold/daemon/workspace/workspace'
import { trialSpecs } from '@anchorhold/keeper/cells/trial'
import { execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { attackedRungs } from './attacked-rungs.ts'
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
    await using folder = await holdFolder(workspace)
    let copied = 0
    for (let round = 0; round < rounds; round++) {
      const to = join(base, `copy-${round}`)
      mkdirSync(to)
      // One that finds too much changed may fail; what it has copied until then is looked at all the same.
      await copyTree(folder, to, { reader: null, writer: null }).catch(() => {})
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
      granted: join(base, 'granted.json'),
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

/** Somebody at work above the workspace: a folder on the way to it and a link to the victim change places, over and over. */
async function swapperAbove(): Promise<
  Disposable & { readonly asked: string; readonly options: Omit<WorkspaceOptions, 'access' | 'own'> }
> {
  const shared = join(base, 'shared')
  for (const folder of [join(shared, 'a/x/y'), join(victim, 'y')]) mkdirSync(folder, { recursive: true })
  writeFileSync(join(shared, 'a/x/y/own'), 'own')
  writeFileSync(join(victim, 'y/secret'), 'canary')
  // For those who have not all folders it is read as its owner, who is not root.
  if (isRoot) execFileSync('chown', ['-R', `${fresh.uid}:${fresh.gid}`, join(shared, 'a')])
  const swap = `
    $| = 1; chdir $ARGV[0] or die; symlink $ARGV[1], "l"; print "ready\\n";
    while (1) { rename "x", "f"; rename "l", "x"; select(undef, undef, undef, 0.0003); rename "x", "l"; rename "f", "x"; select(undef, undef, undef, 0.0003) }`
  const child = spawn('perl', ['-e', swap, join(shared, 'a'), victim], { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  const asked = join(shared, 'a/x/y')
  const options = {
    asked,
    fresh: isRoot ? fresh : null,
    home: join(base, 'home'),
    reserved: [],
    within: null,
    granted: join(base, 'granted.json'),
  }
  return { asked, options, [Symbol.dispose]: () => void child.kill('SIGKILL') }
}

describe('a folder above the workspace that is swapped for a link while the daemon makes a session', () => {
  test('does not lead a copy to what was never judged', async () => {
    using above = await swapperAbove()
    let copied = 0
    for (let round = 0; round < rounds || copied === 0; round++) {
      const own = join(base, `own-${round}`)
      await prepareWorkspace({ ...above.options, access: 'copy', own, within: [join(base, 'shared')] }).catch(() => {})
      if (existsSync(join(own, 'own'))) copied++
      expect(existsSync(join(own, 'secret'))).toBe(false)
    }
  })

  test.runIf(isRoot)('does not make root give away what it leads to', async () => {
    using above = await swapperAbove()
    // Where the folder was asked for is judged first, as it is for those who have not all folders.
    let given = 0
    for (let round = 0; round < rounds || given === 0; round++) {
      const path = await realpath(above.asked).catch(() => '')
      if (!path.startsWith(join(base, 'shared'))) continue
      await using folder = await holdFolder(path).catch(() => null)
      if (folder !== null) await giveTree(folder.at, fresh)
      if (folder !== null) given++
      expect([victim, join(victim, 'y'), join(victim, 'y/secret')].map((each) => statSync(each).uid)).toEqual([0, 0, 0])
    }
  })

  test('does not lead a cell out', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    const [inside, outside] = [join(base, 'shared/a/x'), join(base, 'private')]
    for (const folder of [join(inside, 'y'), join(outside, 'y')]) mkdirSync(folder, { recursive: true })
    writeFileSync(join(outside, 'y/id_rsa'), 'canary')
    if (spec.runAs !== null) execFileSync('chown', ['-R', `${spec.runAs.uid}:${spec.runAs.gid}`, join(base, 'shared'), outside])
    const start = () => driverOf('bwrap').start({ ...spec, workspace: join(inside, 'y') }, AbortSignal.timeout(20_000))
    await using cell = await start()
    renameSync(inside, join(base, 'shared/a/was'))
    symlinkSync(outside, inside)
    await expect(start()).rejects.toMatchObject({
      code: 'cell_unavailable',
      message: expect.stringContaining('a link is in its way') as string,
    })
    // A cell that stands keeps the folder that it was given, also for what is started in it later.
    const child = cell.spawn(['/bin/ls', '-a', '/workspace'], { env: {}, cwd: '/' })
    child.stdin.end()
    expect([await text(child.stdout), await text(child.stderr)]).toEqual(['.\n..\n', ''])
  })
})

const ways = attackedRungs.flatMap((rung) => [[rung, 'workspace'] as const, [rung, 'home'] as const])
test.each(ways)('a cell of rung %s does not start with a link where its %s was', async (rung, which) => {
  await using specs = trialSpecs()
  const spec = await specs.make()
  rmSync(spec[which], { recursive: true })
  symlinkSync(victim, spec[which])
  await expect(driverOf(rung).start(spec, AbortSignal.timeout(10_000))).rejects.toMatchObject({
    code: 'cell_unavailable',
    message: expect.stringContaining('is not a folder') as string,
  })
})
