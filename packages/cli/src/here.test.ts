import { userInfo } from 'node:os'
import { afterEach, expect, test, vi } from 'vitest'
import { fromHere, homeFolder } from './here.ts'

afterEach(() => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
})

test('homeFolder() takes an empty HOME for one that is not set', () => {
  vi.stubEnv('HOME', '/home/elsewhere')
  expect(homeFolder()).toBe('/home/elsewhere')
  vi.stubEnv('HOME', '')
  expect(homeFolder()).toBe(userInfo().homedir)
})

test('fromHere() says that the folder is gone where one stands in none, and needs none for a whole path', () => {
  vi.spyOn(process, 'cwd').mockImplementation(() => {
    throw new Error('ENOENT: process.cwd failed')
  })
  expect(() => fromHere('.')).toThrow(
    expect.objectContaining({ code: 'bad_request', message: 'Cannot find ".": the folder that you are in is gone' }),
  )
  expect(fromHere('/a/b')).toBe('/a/b')
})
