import { CacheView } from '@anchorhold/protocol/api/caches'
import { SecretName } from '@anchorhold/protocol/credentials'
import { SessionId } from '@anchorhold/protocol/ids'
import { ModelName } from '@anchorhold/protocol/sessions'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { issuesInWords } from './issue-words.ts'

const words = (schema: z.ZodType, value: unknown): string => {
  const { error } = schema.safeParse(value)
  return error === undefined ? 'nothing is wrong' : issuesInWords(error)
}

test.each([
  ['a secret', SecretName, 'bad name/..', 'this must be a name of letters, digits, dashes and underscores, a letter first'],
  ['a cache', CacheView.shape.id, 'nope', 'this must be the id of a cache, as anchorhold cache list shows it'],
  ['a model', ModelName, '', 'this must be the id of a model, as claude-sonnet-5'],
  ['an id', SessionId, 'x', 'this is no id, which would begin with "ses_"'],
  ['a day', z.iso.date(), 'foo', 'this must be a day, as 2026-11-30'],
  ['an address', z.url(), 'foo', 'this must be an address, as http://localhost:8080'],
  ['a beginning', z.string().startsWith('/'), 'x', 'this must begin with "/"'],
  ['a pattern without words', z.string().regex(/^[a-z]+$/), '1', 'this must be written as /^[a-z]+$/'],
  ['an object', z.object({}), [], 'this must be an object: keys with their values'],
])('issuesInWords() says how %s is written', (_, schema, value, said) => {
  expect(words(schema, value)).toBe(said)
})

test('issuesInWords() says no more at once than a person reads', () => {
  const said = words(z.array(z.number()), Array(1000).fill('x'))
  expect(said.split('must be a number')).toHaveLength(21)
})
