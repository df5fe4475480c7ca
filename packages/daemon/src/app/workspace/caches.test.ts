import type { UserId } from '@anchorhold/protocol/ids'
import { existsSync, mkdirSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { cacheOf, clearCaches, listCaches } from './caches.ts'
import { createSession } from '../sessions/create-session.ts'
import { owner, type TestParts, testParts } from '../test-parts.ts'

let parts: TestParts
let folder: string
beforeEach(() => {
  parts = testParts()
  folder = join(realpathSync(join(parts.config.state, '..')), 'project')
  mkdirSync(folder)
})
afterEach(() => parts[Symbol.dispose]())

const made = async (input: Parameters<typeof createSession>[2]) =>
  parts.store.sessions.get((await createSession(parts, owner, input)).id)!

test('cacheOf() is for sessions in a host folder itself: its person and the folder share one', async () => {
  const [first, second] = [await made({ workspace: folder }), await made({ workspace: folder })]
  const cache = cacheOf(parts, first)
  expect(cache).not.toBeNull()
  expect(cacheOf(parts, second)).toBe(cache)
  expect(cacheOf(parts, { ...first, ownerId: 'usr_0000000000000001' as UserId })).not.toBe(cache)
  for (const none of [
    await made({}),
    await made({ workspace: folder, workspace_access: 'copy' }),
    { ...first, rung: 'microvm' as const },
    { ...first, grants: [folder] },
  ])
    expect(cacheOf(parts, none)).toBeNull()
  const off = { ...parts, config: { ...parts.config, caches: { shared: false, sizeBytes: 1 } } }
  expect(cacheOf(off, first)).toBeNull()
})

test('clearCaches() clears what no session works with', async () => {
  const session = await made({ workspace: folder })
  const cache = cacheOf(parts, session)!
  await parts.keepers.ensure(session.id)
  const [shown] = await listCaches(parts, owner)
  expect(shown).toMatchObject({ workspace: folder, owner: 'owner', in_use: true })
  await expect(clearCaches(parts, owner, shown!.id)).rejects.toMatchObject({ code: 'conflict' })
  expect(await clearCaches(parts, owner, null)).toEqual({ cleared: 0 })
  await parts.keepers.end(session.id, 'test')
  expect(await clearCaches(parts, owner, shown!.id)).toEqual({ cleared: 1 })
  expect(existsSync(cache)).toBe(false)
  await expect(clearCaches(parts, owner, shown!.id)).rejects.toMatchObject({ code: 'not_found' })
})
