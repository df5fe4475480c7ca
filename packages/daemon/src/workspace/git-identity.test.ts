import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { gitIdentity } from './git-identity.ts'

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'ah-git-'))
})
afterEach(() => rmSync(home, { recursive: true }))
const asked = () => gitIdentity({ HOME: home, PATH: process.env.PATH })
const write = (text: string, file = '.gitconfig') => writeFileSync(join(home, file), text)

describe('gitIdentity()', () => {
  test('is what git calls global, and the last of several', async () => {
    write('[user]\n\tname = first\n\temail = a@b\n[user]\n\tname = "Ann  of = the #house"\n')
    expect(await asked()()).toEqual({ name: 'Ann  of = the #house', email: 'a@b' })
  })

  test('is read where there is no .gitconfig', async () => {
    mkdirSync(join(home, '.config/git'), { recursive: true })
    write('[user]\n\tname = Ann\n\temail = a@b\n', '.config/git/config')
    expect(await asked()()).toEqual({ name: 'Ann', email: 'a@b' })
  })

  test.each([
    ['nothing', null],
    ['half of it', '[user]\n\tname = Ann\n'],
    ['an empty one', '[user]\n\tname = Ann\n\temail =\n'],
    ['what git cannot read', '[user\n'],
  ])('is nobody where there is %s', async (_, text) => {
    if (text !== null) write(text)
    expect(await asked()()).toBeNull()
  })

  test('is asked for once more where there was no git', async () => {
    const env: Record<string, string | undefined> = { HOME: home, PATH: '/nonexistent' }
    const identity = gitIdentity(env)
    write('[user]\n\tname = Ann\n\temail = a@b\n')
    expect(await identity()).toBeNull()
    env.PATH = process.env.PATH
    expect(await identity()).toEqual({ name: 'Ann', email: 'a@b' })
  })

  test('is asked for again when its file has changed, and no process is started before that', async () => {
    const env: Record<string, string | undefined> = { HOME: home, PATH: process.env.PATH }
    const identity = gitIdentity(env)
    expect(await identity()).toBeNull()
    write('[user]\n\tname = Ann\n\temail = a@b\n')
    expect(await identity()).toEqual({ name: 'Ann', email: 'a@b' })
    env.PATH = '/nonexistent'
    expect(await identity()).toEqual({ name: 'Ann', email: 'a@b' })
    env.PATH = process.env.PATH
    write('[user]\n\tname = Bob\n\temail = b@b\n')
    expect(await identity()).toEqual({ name: 'Bob', email: 'b@b' })
  })
})
