import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  newPromptId,
  newRequestId,
  newSessionId,
  newTokenId,
  PromptId,
  promptOfUuid,
  RequestId,
  SessionId,
  TokenId,
  uuidOfPrompt,
} from './ids.ts'

const bytes = fc.uint8Array({ minLength: 16, maxLength: 16 })

test('every new id is one of its kind, and of no other', () => {
  fc.assert(
    fc.property(bytes, (random) => {
      const made = [newSessionId, newRequestId, newTokenId, newPromptId].map((make) => make(() => Uint8Array.from(random)))
      const kinds = [SessionId, RequestId, TokenId, PromptId]
      for (const [index, id] of made.entries())
        expect(kinds.map((kind) => kind.safeParse(id).success)).toEqual(kinds.map((_, other) => other === index))
    }),
  )
})

test('promptOfUuid() is the way back from uuidOfPrompt(), which is a UUID of version 4', () => {
  fc.assert(
    fc.property(bytes, (random) => {
      const id = newPromptId(() => Uint8Array.from(random))
      const uuid = uuidOfPrompt(id)
      expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(promptOfUuid(uuid)).toBe(id)
      expect(promptOfUuid(uuid.toUpperCase())).toBe(id)
    }),
  )
})

test.each(['', 'x', 'prm_', '../../etc/passwd', '0'.repeat(33)])('promptOfUuid() finds no prompt in %j', (text) => {
  expect(promptOfUuid(text)).toBeNull()
})

test.each(['ses_', 'ses_0000000000000000/..', 'ses_000000000000000', 'SES_0000000000000000', 'ses_0000000000000000\n'])(
  'SessionId refuses %j',
  (text) => {
    expect(SessionId.safeParse(text).success).toBe(false)
  },
)
