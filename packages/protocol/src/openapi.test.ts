import { expect, test } from 'vitest'
import { api } from './api/api.ts'
import { apiRoot } from './api/addresses.ts'
import { openapi } from './openapi.ts'

type Operation = {
  readonly operationId: string
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly required: boolean }[]
  readonly requestBody?: { readonly required: boolean }
  readonly security?: readonly unknown[]
  readonly responses: Readonly<Record<string, { readonly content: Readonly<Record<string, unknown>> }>>
}
const document = openapi('1.2.3')
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation: operation as Operation })),
)

test('openapi() describes every call of the contract, once', () => {
  expect(operations.map(({ operation }) => operation.operationId).toSorted()).toEqual(Object.keys(api).toSorted())
  expect(document.info.version).toBe('1.2.3')
})

test('openapi() names every parameter of a path as required', () => {
  for (const { path, operation } of operations) {
    expect(path.startsWith(apiRoot)).toBe(true)
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    const given = (operation.parameters ?? []).filter((one) => one.in === 'path')
    expect(given.map(({ name }) => name)).toEqual(named)
    expect(given.every(({ required }) => required)).toBe(true)
  }
})

test('openapi() leaves open only what logs in and what tells that it is reached, and says which calls stream', () => {
  const open = operations.filter(({ operation }) => operation.security?.length === 0)
  expect(open.map(({ operation }) => operation.operationId)).toEqual([
    ...['login', 'loginWays', 'loginByPassword', 'loginByCode', 'askPasskey', 'loginByPasskey'],
    // Says back what it was told, for who tries the public URL.
    'reach',
  ])
  const streams = operations.filter(({ operation }) =>
    Object.values(operation.responses).some(({ content }) => 'text/event-stream' in content),
  )
  expect(streams.map(({ operation }) => operation.operationId).toSorted()).toEqual(['events', 'sessionEvents'])
})

test('openapi() can be written as JSON, and asks for a body only where one is needed', () => {
  expect(() => JSON.stringify(document)).not.toThrow()
  const body = (name: string) =>
    operations.find(({ operation }) => operation.operationId === name)?.operation.requestBody?.required
  expect([body('prompt'), body('interrupt'), body('stop')]).toEqual([true, false, undefined])
})
