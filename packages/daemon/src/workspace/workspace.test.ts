import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { fakeAccessLists } from './fake-access-lists.ts'
import { grantedIn, readGranted } from './granted.ts'
import { holdFolder } from './held-folder.ts'
import { copyTree as copyHeld, giveTree } from './trees.ts'
import { prepareWorkspace, revokeGrants, undoFolder, type WorkspaceOptions } from './workspace.ts'

const isRoot = process.getuid?.() === 0
const fresh = { uid: 1_900_000_777, gid: 1_900_000_777 }
const someone = { uid: 1_000_777, gid: 1_000_777 }
let root = ''
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ah-workspace-'))
  mkdirSync(join(root, 'home/project'), { recursive: true })
  mkdirSync(join(root, 'state'))
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(root, { recursive: true })
})
async function copyTree(from: string, to: string, as: Parameters<typeof copyHeld>[2]): Promise<void> {
  await using folder = await holdFolder(from)
  await copyHeld(folder, to, as)
}
const project = () => join(root, 'home/project')
const prepare = (options: Partial<WorkspaceOptions>) =>
  prepareWorkspace({
    asked: null,
    access: null,
    own: join(root, 'own'),
    fresh: null,
    home: join(root, 'home'),
    reserved: [join(root, 'state')],
    within: null,
    granted: grantedIn(root),
    ...options,
  })

test('prepareWorkspace() makes an empty folder when none is asked for', async () => {
  expect(await prepare({})).toEqual({ path: join(root, 'own'), runAs: null, grants: [], from: null })
  expect(statSync(join(root, 'own')).isDirectory()).toBe(true)
})

test('prepareWorkspace() takes a folder of the owner as it is', async () => {
  expect(await prepare({ asked: project() })).toEqual({
    path: project(),
    runAs: null,
    grants: [],
    from: { path: project(), origin: null },
  })
})

test('prepareWorkspace() takes a link for what it leads to', async () => {
  symlinkSync(project(), join(root, 'link'))
  expect((await prepare({ asked: join(root, 'link') })).path).toBe(project())
})

test.each([
  ['a path that is not absolute', () => 'home/project'],
  ['a path with a NUL', () => `${project()}\0`],
  ['nothing', () => join(root, 'nothing')],
  ['a file', () => (writeFileSync(join(root, 'file'), ''), join(root, 'file'))],
  ['the whole home', () => join(root, 'home')],
  ['a folder of Anchorhold’s own', () => join(root, 'state')],
  ['what holds a folder of Anchorhold’s own', () => root],
  ['a way round to the home', () => join(root, 'home/project/..')],
  ['a link to the system', () => (symlinkSync('/etc', join(root, 'etc')), join(root, 'etc'))],
])('prepareWorkspace() refuses %s', async (_, asked) => {
  await expect(prepare({ asked: asked() })).rejects.toMatchObject({ code: 'workspace_refused' })
})

test.each(['copy', 'snapshot', 'acl', 'chown'] as const)(
  'prepareWorkspace() refuses %s where no folder is named',
  async (access) => {
    const hint = expect.stringContaining('--workspace') as string
    await expect(prepare({ asked: null, access })).rejects.toMatchObject({ code: 'workspace_refused', hint })
    expect(existsSync(join(root, 'own'))).toBe(false)
  },
)

test.each(['acl', 'chown'] as const)('prepareWorkspace() refuses %s where there is no other user to let in', async (access) => {
  const hint = expect.stringContaining(`Leave --acl and --chown out`) as string
  await expect(prepare({ asked: project(), access })).rejects.toMatchObject({ code: 'workspace_refused', hint })
})

test('prepareWorkspace() copies without following a link, and leaves the original alone', async () => {
  writeFileSync(join(project(), 'hello.txt'), 'hi')
  symlinkSync('/etc/passwd', join(project(), 'link'))
  const { path } = await prepare({ asked: project(), access: 'copy' })
  expect(path).toBe(join(root, 'own'))
  expect(existsSync(join(path, 'hello.txt'))).toBe(true)
  expect(readlinkSync(join(path, 'link'))).toBe('/etc/passwd')
  writeFileSync(join(path, 'more'), '')
  expect(existsSync(join(project(), 'more'))).toBe(false)
})

test.runIf(isRoot)('prepareWorkspace() refuses as root a folder of root’s, and says which ways there are', async () => {
  await expect(prepare({ asked: project(), fresh })).rejects.toMatchObject({
    code: 'workspace_refused',
    hint: expect.stringContaining('--copy') as string,
  })
})

test.runIf(isRoot)('prepareWorkspace() enters a folder as its owner, where the owner can', async () => {
  chownSync(project(), someone.uid, someone.gid)
  await expect(prepare({ asked: project(), fresh })).rejects.toMatchObject({ code: 'workspace_refused' })
  chownSync(root, someone.uid, someone.gid)
  expect(await prepare({ asked: project(), fresh })).toMatchObject({ path: project(), runAs: someone, grants: [] })
})

test.runIf(isRoot)(
  'prepareWorkspace() copies for those who may not have any folder no more than its owner may read',
  async () => {
    chmodSync(root, 0o711)
    writeFileSync(join(project(), 'file'), '')
    const shared = { asked: project(), access: 'copy', fresh, within: [join(root, 'home')] } as const
    await expect(prepare(shared)).rejects.toMatchObject({
      code: 'workspace_refused',
      message: expect.stringContaining('belongs to root') as string,
      hint: expect.stringContaining('An owner') as string,
    })
    expect(existsSync(join(root, 'own'))).toBe(false)
    chownSync(project(), someone.uid, someone.gid)
    expect(readdirSync((await prepare(shared)).path)).toEqual(['file'])
    chmodSync(join(root, 'home'), 0o700)
    await expect(prepare(shared)).rejects.toThrow('cannot reach it')
    chmodSync(join(root, 'home'), 0o711)
    writeFileSync(join(project(), 'secret'), 'of root', { mode: 0o600 })
    await expect(prepare(shared)).rejects.toThrow('secret')
    expect(existsSync(join(root, 'own/secret'))).toBe(false)
    // Who may have any folder has this one whole.
    expect(readdirSync((await prepare({ ...shared, within: null })).path).toSorted()).toEqual(['file', 'secret'])
  },
)

test.runIf(isRoot)('giveTree() changes the owner of links themselves, never of what they lead to', async () => {
  const outside = join(root, 'outside')
  writeFileSync(outside, '')
  symlinkSync(outside, join(project(), 'link'))
  symlinkSync(join(root, 'state'), join(project(), 'folder'))
  await giveTree(project(), fresh)
  expect(lstatSync(join(project(), 'link')).uid).toBe(fresh.uid)
  expect([statSync(outside).uid, statSync(join(root, 'state')).uid]).toEqual([0, 0])
})

test.runIf(isRoot)('giveTree() passes nothing over whose name is no text', async () => {
  const folder = Buffer.concat([Buffer.from(`${project()}/`), Buffer.from([0x66, 0xff])])
  const file = Buffer.concat([folder, Buffer.from('/file')])
  mkdirSync(folder)
  writeFileSync(file, '')
  await giveTree(project(), fresh)
  expect([folder, file].map((each) => lstatSync(each).uid)).toEqual([fresh.uid, fresh.uid])
})

test.runIf(isRoot)('copyTree() takes no owner along', async () => {
  writeFileSync(join(project(), 'file'), '')
  chownSync(join(project(), 'file'), someone.uid, someone.gid)
  mkdirSync(join(root, 'to'))
  chownSync(join(root, 'to'), fresh.uid, fresh.gid)
  chmodSync(root, 0o711)
  await copyTree(project(), join(root, 'to'), { reader: null, writer: fresh })
  expect(statSync(join(root, 'to/file')).uid).toBe(fresh.uid)
})

test.runIf(isRoot)('copyTree() reads no more than its reader may', async () => {
  writeFileSync(join(project(), 'secret'), 'of root', { mode: 0o600 })
  mkdirSync(join(root, 'to'), { mode: 0o777 })
  chmodSync(root, 0o711)
  await expect(copyTree(project(), join(root, 'to'), { reader: someone, writer: null })).rejects.toMatchObject({
    code: 'workspace_refused',
    message: expect.stringContaining('secret') as string,
  })
  expect(existsSync(join(root, 'to/secret'))).toBe(false)
})

test('copyTree() copies files, modes, empty folders and links, and says so when it cannot', async () => {
  mkdirSync(join(project(), 'deep/empty'), { recursive: true })
  writeFileSync(join(project(), 'deep/run'), '#!/bin/sh', { mode: 0o755 })
  symlinkSync('../../outside', join(project(), 'deep/link'))
  mkdirSync(join(root, 'to'))
  await copyTree(project(), join(root, 'to'), { reader: null, writer: null })
  expect(statSync(join(root, 'to/deep/empty')).isDirectory()).toBe(true)
  expect((statSync(join(root, 'to/deep/run')).mode & 0o777).toString(8)).toBe('755')
  expect(readlinkSync(join(root, 'to/deep/link'))).toBe('../../outside')
  await expect(copyTree(join(root, 'nothing'), join(root, 'to'), { reader: null, writer: null })).rejects.toMatchObject({
    code: 'workspace_refused',
  })
  await expect(copyTree(project(), join(root, 'nothing'), { reader: null, writer: null })).rejects.toMatchObject({
    code: 'workspace_refused',
  })
})

test.each(['acl', 'chown'] as const)('prepareWorkspace() gives nobody but an owner a folder by %s', async (access) => {
  await expect(prepare({ asked: project(), access, within: [join(root, 'home')] })).rejects.toMatchObject({
    code: 'workspace_refused',
    message: expect.stringContaining('only an owner') as string,
  })
})

test('holdFolder() holds the folder that was judged, whatever its name leads to later', async () => {
  mkdirSync(join(root, 'victim/project'), { recursive: true })
  writeFileSync(join(root, 'victim/project/secret'), 'canary')
  writeFileSync(join(project(), 'own'), 'own')
  await using folder = await holdFolder(project())
  renameSync(join(root, 'home'), join(root, 'was'))
  symlinkSync(join(root, 'victim'), join(root, 'home'))
  mkdirSync(join(root, 'to'))
  await copyHeld(folder, join(root, 'to'), { reader: null, writer: null })
  expect(readdirSync(join(root, 'to'))).toEqual(['own'])
  for (const way of [project(), join(root, 'home')])
    await expect(holdFolder(way)).rejects.toMatchObject({
      code: 'workspace_refused',
      message: expect.stringContaining('a link is in its way') as string,
    })
})

function accessLists() {
  const lists = fakeAccessLists(join(root, 'bin'))
  vi.stubEnv('PATH', `${lists.path}:${process.env['PATH']}`)
  return lists
}
const entry = `u:${fresh.uid}`

test('prepareWorkspace() writes down what it grants before it does, and undoFolder() goes by that', async () => {
  const lists = accessLists()
  const base = join(root, 'base')
  mkdirSync(base)
  writeFileSync(join(project(), 'file'), '')
  // The folders are done and the files not: it is cut short in the middle.
  lists.refuse(`${entry}:rwX`)
  await expect(prepare({ asked: project(), access: 'acl', fresh, granted: grantedIn(base) })).rejects.toMatchObject({
    code: 'workspace_refused',
    message: expect.stringContaining('setfacl: Operation not permitted') as string,
  })
  // mkdtemp lets nobody else pass.
  expect(await readGranted(grantedIn(base))).toEqual({ runAs: fresh, grants: [root, project()] })
  expect(lists.done()).toEqual([`-m ${entry}:--x ${root}`])
  lists.refuse(`${entry},d:${entry}`)
  await expect(undoFolder(base, grantedIn(base))).rejects.toThrow('Operation not permitted')
  expect(await readGranted(grantedIn(base))).not.toBeNull()
  lists.refuse(null)
  await undoFolder(base, grantedIn(base))
  expect(existsSync(base)).toBe(false)
  for (const undone of [`-x ${entry} ${root}`, `-x ${entry} ${project()}/file`, `-x ${entry},d:${entry} ${project()}`])
    expect(lists.done()).toContain(undone)
})

test('revokeGrants() passes by what is too deep, and undoes all the rest', async () => {
  const lists = accessLists()
  for (const name of ['a', 'z']) writeFileSync(join(project(), name), '')
  mkdirSync(join(project(), `m${'/d'.repeat(257)}`), { recursive: true })
  await revokeGrants([project()], fresh)
  const done = lists.done()
  expect(done).toContain(`-x ${entry},d:${entry} ${project()}/m/d`)
  expect(done.filter((line) => line.startsWith(`-x ${entry} `))).toEqual(
    ['a', 'z'].map((name) => `-x ${entry} ${project()}/${name}`),
  )
})

test('revokeGrants() says what it could not undo, and undoes the rest all the same', async () => {
  const lists = accessLists()
  writeFileSync(join(project(), 'file'), '')
  lists.refuse(`${entry},d:`)
  await expect(revokeGrants([root, project()], fresh)).rejects.toThrow(`to "${project()}": setfacl: Operation not permitted`)
  expect(lists.done()).toEqual([`-x ${entry} ${root}`, `-x ${entry} ${project()}/file`])
})
