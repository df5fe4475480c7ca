import { z } from 'zod'
import { api } from './api/api.ts'
import { apiAddress, type ApiName, apiRoot } from './api/addresses.ts'
import { Problem, type Route } from './api/route.ts'
import { failureCodes } from './failures.ts'

/** The OpenAPI document of the HTTP door, made from the contract that the door itself is made from. */
export function openapi(version: string) {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const [name, route] of Object.entries<Route>(api)) {
    const { method, path: pattern } = apiAddress(name as ApiName)
    const path = `${apiRoot}${pattern}`.replace(/:(\w+)/g, '{$1}')
    ;(paths[path] ??= {})[method.toLowerCase()] = operation(name, route)
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Anchorhold',
      version,
      description: `Failures carry a code: ${Object.entries(failureCodes)
        .map(([code, { status, meaning }]) => `\`${code}\` (${status}): ${meaning}`)
        .join('; ')}.`,
    },
    security: [{ token: [] }, { cookie: [] }],
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer' },
        cookie: { type: 'apiKey', in: 'cookie', name: 'anchorhold' },
      },
      schemas: { Problem: schema(Problem) },
    },
  }
}

function operation(name: string, route: Route) {
  const parameters = [...fields(route.params, 'path'), ...fields(route.query, 'query')]
  const content = {
    [route.lines ? 'application/jsonl' : 'application/json']: { schema: schema(route.response) },
    ...(route.streams ? { 'text/event-stream': {} } : {}),
  }
  return {
    operationId: name,
    summary: route.summary,
    ...(route.open ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: !route.body.safeParse(undefined).success,
            content: { 'application/json': { schema: schema(route.body, 'input') } },
          },
        }),
    responses: {
      [route.status]: { description: 'Done', content },
      default: {
        description: 'A failure',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    },
  }
}

function fields(object: z.ZodObject | undefined, place: 'path' | 'query') {
  return Object.entries(object?.shape ?? {}).map(([name, field]) => ({
    name,
    in: place,
    required: place === 'path',
    schema: schema(field as z.ZodType, 'input'),
  }))
}

function schema(type: z.ZodType, io: 'input' | 'output' = 'output'): unknown {
  const { $schema: _, ...rest } = z.toJSONSchema(type, { io, unrepresentable: 'any' })
  return rest
}
