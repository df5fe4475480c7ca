import { firstOwner, type UserId } from '@anchorhold/protocol/ids'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { cacheId, listCaches, openCache, pruneCaches, reapCaches, removeCache } from './caches.ts'

let caches: string
beforeEach(() => {
  caches = mkdtempSync(join(tmpdir(), 'ah-caches-'))
})
afterEach(() => rmSync(caches, { recursive: true }))

const one = { owner: firstOwner, workspace: '/home/me/project', runAs: null }
const someBytes = Buffer.alloc(1024 * 1024, 7)
const kept = (folder: string) => join(folder, 'npm/kept')

test('openCache() gives the same folder to the same person in the same folder, and to nobody else', () => {
  const folder = openCache(caches, one, 1)
  writeFileSync(kept(folder), 'x')
  expect(openCache(caches, { ...one }, 2)).toBe(folder)
  expect(existsSync(kept(folder))).toBe(true)
  const others = [
    { ...one, workspace: '/home/me/other' },
    { ...one, owner: 'usr_0000000000000001' as UserId },
    { ...one, runAs: { uid: 4711, gid: 4711 } },
  ]
  expect(new Set([one, ...others].map(cacheId)).size).toBe(4)
  expect(listCaches(caches)).toMatchObject([{ id: cacheId(one), workspace: '/home/me/project', used_at: 2 }])
})

test('openCache() goes by no link that a cell has put in the place of one of its folders', () => {
  const folder = openCache(caches, one, 1)
  const outside = join(caches, 'outside')
  mkdirSync(outside)
  rmSync(join(folder, 'pip'), { recursive: true })
  symlinkSync(join(outside, 'made'), join(folder, 'pip'))
  openCache(caches, one, 2)
  expect(readdirSync(outside)).toEqual([])
})

test('pruneCaches() removes what was longest not used until the rest fits, and nothing that is in use', async () => {
  const folders = [1, 2, 3, 4].map((n) => openCache(caches, { ...one, workspace: `/w/${n}` }, n))
  for (const folder of folders) writeFileSync(kept(folder), someBytes)
  await pruneCaches(caches, 2.5 * someBytes.length, (id) => id === cacheId({ ...one, workspace: '/w/1' }))
  expect(folders.map((folder) => existsSync(kept(folder)))).toEqual([true, false, true, true])
  await removeCache(caches, cacheId({ ...one, workspace: '/w/4' }))
  expect(listCaches(caches).map(({ workspace }) => workspace)).toEqual(['/w/3', '/w/1'])
})

test('reapCaches() removes what has no card, and what a removal left half done', async () => {
  const folder = openCache(caches, one, 1)
  mkdirSync(join(caches, 'gone-1/npm'), { recursive: true })
  mkdirSync(join(caches, '0123456789abcdef'))
  writeFileSync(join(caches, 'fedcba9876543210.json'), '{}')
  await reapCaches(caches)
  expect(readdirSync(caches).toSorted()).toEqual([cacheId(one), `${cacheId(one)}.json`].toSorted())
  expect(existsSync(folder)).toBe(true)
})
