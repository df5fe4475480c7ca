import { expect, test } from 'vitest'
import { passwords, readPasswordHash } from './passwords.ts'

const { hash, isRight } = passwords()

test('isRight() knows the password again, in whichever form its letters come, and no other', async () => {
  const made = await hash('pass wörd twelve')
  expect(made).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  expect(await isRight('pass wörd twelve'.normalize('NFD'), made)).toBe(true)
  expect(await isRight('pass word twelve', made)).toBe(false)
  expect(await isRight('nobody has this password', null)).toBe(false)
})

test('isRight() checks a few at a time and refuses the rest', async () => {
  const made = await hash('pass wörd twelve')
  const tries = await Promise.allSettled(Array.from({ length: 6 }, () => isRight('pass wörd twelve', made)))
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(4)
  expect(tries.at(-1)).toMatchObject({ reason: { code: 'too_many' } })
})

test('readPasswordHash() takes a PHC string and its base64, and nothing else', async () => {
  const made = await hash('pass wörd twelve')
  expect(readPasswordHash(` ${made}\n`)).toBe(made)
  expect(readPasswordHash(Buffer.from(made).toString('base64'))).toBe(made)
  for (const wrong of ['', 'secret', '$2b$10$abcdefghijklmnopqrstuv', made.replace('19456', '99999999'), `${made}\n$x`])
    expect(() => readPasswordHash(wrong), wrong).toThrow(expect.objectContaining({ code: 'bad_request' }))
})
