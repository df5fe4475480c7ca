import { expect, test } from 'vitest'
import { readGraphql } from './read-graphql.ts'

const asks = (query: string, more: object = {}) => readGraphql(JSON.stringify({ query, ...more }))

test.each([
  ['{ viewer { login } }', null],
  ['query List($owner: String!, $n: Int = 1) { repository(owner: $owner, name: "mutation { x }") { id } }', null],
  ['fragment pr on PullRequest { number } query L { repository { ...pr } }', null],
  ['# mutation { deleteRef }\n query { a }', null],
  ['query { a(text: """ mutation { "" \\""" deleteRef } """) }', null],
  [
    'mutation PullRequestCreate($input: CreatePullRequestInput!) { createPullRequest(input: $input) { pullRequest { id } } }',
    'createPullRequest',
  ],
  [
    'mutation($a: X = { b: [1, {c: 2}] }) @d(e: {f: 1}) { x: mergePullRequest(input: {a: "}"}) @include(if: true) { id } }',
    'mergePullRequest',
  ],
  ['mutation { a: addStar(input: $a) { id } b: addStar(input: $b) { id } }', 'addStar'],
  ['query Safe { a } mutation Evil { deleteRef(input: {}) { id } }', 'deleteRef'],
])('readGraphql() of %j is a change %j', (query, mutation) => {
  expect(asks(query)).toEqual({ mutation })
})

test.each([
  ['several changes', 'mutation { createPullRequest { id } mergePullRequest { id } }'],
  ['several changes in two operations', 'mutation A { addStar { id } } mutation B { deleteRef { id } }'],
  ['a change behind a fragment', 'mutation { ...f } fragment f on Mutation { deleteRef { id } }'],
  ['a change behind an inline fragment', 'mutation { ... on Mutation { deleteRef { id } } }'],
  ['a subscription', 'subscription { a }'],
  ['a schema', 'type A { b: C }'],
  ['nothing', ''],
  ['what is not closed', 'query { a'],
  ['what is closed twice', 'query { a } } mutation { deleteRef }'],
  ['crossed brackets', 'query { a(b: [} mutation { deleteRef ]) }'],
  ['a string over two lines', 'query { a(b: "\n") }'],
  ['other characters', 'query { a; }'],
])('readGraphql() refuses %s', (_, query) => {
  expect(asks(query)).toHaveProperty('refused')
})

test.each([
  ['no JSON', 'query=mutation{deleteRef}'],
  ['several requests', '[{"query":"{a}"}]'],
  ['a query that was stored before', '{"id":"1","extensions":{"persistedQuery":{}}}'],
  ['two queries', '{"query":"{a}","query":"mutation{deleteRef{id}}"}'],
  ['two queries, one in disguise', '{"query":"{a}","\\u0071uery":"mutation{deleteRef{id}}"}'],
])('readGraphql() refuses a body with %s', (_, body) => {
  expect(readGraphql(body)).toHaveProperty('refused')
})

test('readGraphql() is not led astray by variables that look like more', () => {
  const variables = { query: 'mutation{x}', list: [{ query: 1 }, '{"query":'] }
  expect(asks('{ a }', { variables, operationName: 'x' })).toEqual({ mutation: null })
})

test.each([
  ['brackets', `{"a":${'['.repeat(500_000)}`, 'its body has too many parts, or is nested too deep'],
  ['names', `{${'"a":1,'.repeat(170_000)}"b":1}`, 'its body has too many parts, or is nested too deep'],
  ['one text', JSON.stringify({ query: '"'.repeat(500_000) }), 'its query is no GraphQL, or too long'],
  ['a text of backslashes', JSON.stringify({ query: '\\'.repeat(500_000) }), 'its query is no GraphQL, or too long'],
  ['blanks behind texts', `{"query":"a"${' '.repeat(1_000_000)},"b":"c"}`, 'its query is no GraphQL, or too long'],
  ['levels of a query', JSON.stringify({ query: '{a'.repeat(500_000) }), 'its query is no GraphQL, or too long'],
])('readGraphql() refuses the longest body of %s, and is not slow with it', (_, body, refused) => {
  expect(readGraphql(body)).toEqual({ refused })
})
