import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { addImage } from './add.ts'
import { findImage, listImages, removeImage } from './images.ts'

const made: string[] = []
afterEach(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function fresh(): string {
  const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  made.push(folder)
  return folder
}

/** A tree by its paths: text is a file, `→ target` a link, null a folder. */
function tree(files: Readonly<Record<string, string | null>>): string {
  const folder = fresh()
  for (const [path, content] of Object.entries(files)) {
    const at = join(folder, path)
    mkdirSync(content === null ? at : dirname(at), { recursive: true })
    if (content?.startsWith('→ ')) symlinkSync(content.slice(2), at)
    else if (content !== null) writeFileSync(at, content)
  }
  return folder
}

function tarOf(folder: string, ...more: string[]): string {
  const archive = join(fresh(), 'it.tar')
  execFileSync('tar', ['-C', folder, ...more, '-cf', archive, '.'])
  return archive
}

/** As `docker save` writes it. */
function saved(...layers: readonly Readonly<Record<string, string | null>>[]): string {
  const folder = fresh()
  const names = layers.map((files, index) => {
    mkdirSync(join(folder, String(index)))
    // Only what is named and no folder above it: tar would put a folder in the place of a link by itself.
    execFileSync('tar', [
      '-C',
      tree(files),
      '--no-recursion',
      '-cf',
      join(folder, String(index), 'layer.tar'),
      ...Object.keys(files),
    ])
    return `${index}/layer.tar`
  })
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify([{ Config: 'x.json', RepoTags: null, Layers: names }]))
  return tarOf(folder)
}

const add = (from: string, images = fresh()) => addImage({ images, name: 'mine', from, say() {} })

describe('addImage()', () => {
  test('takes a folder, with every mount point in it and no set-user-id bit', async () => {
    const from = tree({ 'bin/sh': 'shell', 'usr/bin/su': 'su' })
    execFileSync('chmod', ['4755', join(from, 'usr/bin/su')])
    execFileSync('mkfifo', [join(from, 'usr/pipe')])
    const { root } = await add(from)
    expect(statSync(join(root, 'usr/bin/su')).mode & 0o7777).toBe(0o755)
    expect(existsSync(join(root, 'usr/pipe'))).toBe(false)
    for (const path of ['workspace', 'home/agent', 'run/windows', 'run/cell', 'opt/anchorhold', 'proc', 'dev'])
      expect([path, lstatSync(join(root, path)).isDirectory()]).toEqual([path, true])
    expect(readlinkSync(join(root, 'etc/mtab'))).toBe('../proc/self/mounts')
    expect(readFileSync(join(root, 'etc/passwd'), 'utf8')).toContain('agent:x:1000:')
  })

  test('takes the tar of a root', async () => {
    const { root } = await add(tarOf(tree({ 'bin/sh': 'shell' })))
    expect(readFileSync(join(root, 'bin/sh'), 'utf8')).toBe('shell')
  })

  test('lays the layers of a saved image over each other, whiteouts honoured', async () => {
    const { root } = await add(
      saved(
        { 'bin/sh': 'old', 'etc/gone': 'x', 'var/all/one': '1', 'var/all/two': '2', 'opt/was-folder/file': 'x' },
        { 'bin/sh': 'new', 'etc/.wh.gone': '', 'var/all/.wh..wh..opq': '', 'var/all/three': '3', 'opt/was-folder': 'file now' },
      ),
    )
    expect(readFileSync(join(root, 'bin/sh'), 'utf8')).toBe('new')
    expect(existsSync(join(root, 'etc/gone'))).toBe(false)
    expect(readdirSync(join(root, 'var/all'))).toEqual(['three'])
    expect(readFileSync(join(root, 'opt/was-folder'), 'utf8')).toBe('file now')
  })

  test('does not follow a link of one layer into the host with the files of the next', async () => {
    const victim = tree({ safe: 'untouched' })
    const { root } = await add(saved({ 'bin/sh': 'x', trap: `→ ${victim}` }, { 'trap/safe': 'owned', 'trap/more': 'owned' }))
    expect(readdirSync(victim)).toEqual(['safe'])
    expect(readFileSync(join(victim, 'safe'), 'utf8')).toBe('untouched')
    expect(readFileSync(join(root, 'trap/safe'), 'utf8')).toBe('owned')
  })

  test('does not follow a link where it makes its own files and folders', async () => {
    const victim = tree({ passwd: 'untouched' })
    const { root } = await add(saved({ 'bin/sh': 'x', etc: `→ ${victim}`, run: `→ ${victim}` }))
    expect(readdirSync(victim)).toEqual(['passwd'])
    expect(readFileSync(join(victim, 'passwd'), 'utf8')).toBe('untouched')
    expect(lstatSync(join(root, 'etc')).isDirectory()).toBe(true)
  })

  test('keeps a path with .. below its own folder', async () => {
    const folder = tree({ 'bin/sh': 'x', escape: 'owned' })
    const images = fresh()
    await add(tarOf(folder, '--transform=s,^./escape$,../../../escape,', '-P'), images).catch(() => {})
    expect(readdirSync(images).filter((name) => name.includes('escape'))).toEqual([])
    expect(existsSync(join(dirname(images), 'escape'))).toBe(false)
  })

  test('refuses a manifest that names a file outside the archive', async () => {
    const folder = tree({ 'manifest.json': JSON.stringify([{ Layers: ['../../../../etc/passwd'] }]) })
    await expect(add(tarOf(folder))).rejects.toMatchObject({ code: 'bad_request' })
    const linked = tree({ 'manifest.json': JSON.stringify([{ Layers: ['layer'] }]), layer: '→ /etc/passwd' })
    await expect(add(tarOf(linked))).rejects.toMatchObject({ code: 'bad_request' })
  })

  test('refuses what holds no root, and leaves nothing behind', async () => {
    const images = fresh()
    await expect(add(tarOf(tree({ 'readme.txt': 'x' })), images)).rejects.toMatchObject({ code: 'bad_request' })
    expect(readdirSync(images)).toEqual([])
  })

  test('one of the same name takes the place of the other, which stays until it is removed', async () => {
    const images = fresh()
    const first = await add(tarOf(tree({ 'bin/sh': '1' })), images)
    const second = await add(tarOf(tree({ 'bin/sh': '2' })), images)
    expect(findImage(images, 'mine')?.digest).toBe(second.digest)
    expect(listImages(images).map(({ name, inUse }) => [name, inUse])).toEqual([
      ['mine', true],
      [`mine-${first.digest}`, false],
    ])
    await removeImage(images, `mine-${first.digest}`)
    await removeImage(images, 'mine')
    expect(readdirSync(images)).toEqual([])
    await expect(removeImage(images, 'mine')).rejects.toMatchObject({ code: 'not_found' })
  })
})
