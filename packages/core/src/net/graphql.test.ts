import { expect, test } from 'vitest'
import { graphqlPath, isGraphql } from './graphql.ts'

test.each(['/graphql', '/GraphQL/', '/api/graphql', '/graphql?x=1', '/%67raphql', '/graphql;a', '//graphql'])(
  'isGraphql() knows %s',
  (path) => {
    expect(isGraphql(path)).toBe(true)
  },
)

test('isGraphql() leaves other paths alone, and a change has a path of its own', () => {
  expect(isGraphql('/repos/me/graphql/pulls')).toBe(false)
  expect(graphqlPath('/graphql', null)).toBe('/graphql')
  expect(graphqlPath('/graphql', 'addStar')).toBe('/graphql/mutation/addStar')
})
