import { decodeOnce, resolvePath } from '../policy/meaning.ts'

/** Whether a request may be one of GraphQL, however its server reads the path. */
export function isGraphql(path: string): boolean {
  const bare = path.replace(/[?#].*/s, '')
  return [bare, resolvePath(decodeOnce(decodeOnce(bare)).replaceAll('\\', '/'))].some((one) =>
    /\/graphql\/*$/i.test(one.replace(/;.*/s, '')),
  )
}

/** How a request is judged that rules know by a path alone: one that reads by the path itself, a change by a path below it. */
export const graphqlPath = (path: string, mutation: string | null): string =>
  mutation === null ? path : `${path}/mutation/${mutation}`
