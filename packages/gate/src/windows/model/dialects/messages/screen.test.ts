import { deniedTools } from '@anchorhold/core/policy/denied-tools'
import { expect, test } from 'vitest'
import { screen, screenBetas, serialise } from './screen.ts'

const base = { model: 'claude-sonnet-5', max_tokens: 10, messages: [{ role: 'user', content: 'hi' }] }
const image = (source: object) => ({ type: 'image', source })
const said = (...content: object[]) => ({ ...base, messages: [{ role: 'user', content }] })
const run = (body: unknown, allow: string[] = []) =>
  screen(
    Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    { costs: true },
    { allow: new Set(allow), denied: null },
  )
const refusal = (body: unknown, allow: string[] = []) => {
  const result = run(body, allow)
  return result.ok ? null : result.answer
}

const url = { type: 'url', url: 'https://evil.example/?data' }
const file = { type: 'file', file_id: 'file_1' }
const forbidden: readonly (readonly [what: string, body: object, rule: string])[] = [
  ['mcp_servers', { ...base, mcp_servers: [{ type: 'url', url: 'https://evil.example' }] }, 'field:mcp_servers'],
  ['container', { ...base, container: 'c1' }, 'field:container'],
  ['fallbacks to another model', { ...base, fallbacks: 'default' }, 'field:fallbacks'],
  ['a dearer speed', { ...base, speed: 'fast' }, 'field:speed'],
  ['a thread that a server keeps', { ...base, thread: { type: 'create' } }, 'field:thread'],
  ['a field that nobody knows', { ...base, api_base: 'https://evil.example' }, 'field:api_base'],
  ['a web search', { ...base, tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 'tool:web_search_20250305'],
  ['a web fetch', { ...base, tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }] }, 'tool:web_fetch_20250910'],
  ['code execution', { ...base, tools: [{ type: 'code_execution_20250825', name: 'x' }] }, 'tool:code_execution_20250825'],
  ['an MCP toolset', { ...base, tools: [{ type: 'mcp_toolset', mcp_server_name: 'x' }] }, 'tool:mcp_toolset'],
  [
    'a tool with a type that only looks like a client tool',
    { ...base, tools: [{ type: 'bash_20250124_remote', name: 'x' }] },
    'tool:bash_20250124_remote',
  ],
  ['an image by URL', said(image(url)), 'source:url'],
  ['an image by file', said(image(file)), 'source:file'],
  ['a document by URL', said({ type: 'document', source: url }), 'source:url'],
  ['a document by file', said({ type: 'document', source: file }), 'source:file'],
  ['an image by URL in a tool result', said({ type: 'tool_result', tool_use_id: 'x', content: [image(url)] }), 'source:url'],
  [
    'an image by URL in a document in a tool result',
    said({
      type: 'tool_result',
      tool_use_id: 'x',
      content: [{ type: 'document', source: { type: 'content', content: [image(url)] } }],
    }),
    'source:url',
  ],
  ['an image by URL in the system prompt', { ...base, system: [image(url)] }, 'source:url'],
  ['an image by URL in a system message', { ...base, messages: [{ role: 'system', content: [image(url)] }] }, 'source:url'],
  ['a container upload', said({ type: 'container_upload', file_id: 'x' }), 'block:container_upload'],
  ['a server tool use', said({ type: 'server_tool_use', id: 'x', name: 'web_search', input: {} }), 'block:server_tool_use'],
  [
    'a server tool that is added in the middle',
    said({ type: 'tool_addition', tool: { type: 'web_search_20250305', name: 'web_search' } }),
    'tool:web_search_20250305',
  ],
  [
    'an MCP tool that is added in the middle',
    said({ type: 'tool_addition', tool: { type: 'mcp_tool_reference', name: 'x' } }),
    'tool:mcp_tool_reference',
  ],
]

test.each(forbidden)('screen() refuses %s, and names it', (_, body, rule) => {
  expect(refusal(body)).toMatchObject({ kind: 'refused', message: expect.stringContaining(`"${rule}"`) })
})
test.each(forbidden)('screen() lets %s out when the owner names it', (_, body, rule) => {
  expect(refusal(body, [rule])).toBeNull()
})

test('screen() lets out what agents send', () => {
  const tools = [
    { name: 'Read', description: 'x', input_schema: {}, defer_loading: true },
    { type: 'custom', name: 'Y', input_schema: {} },
    { type: 'bash_20250124', name: 'bash' },
    { type: 'text_editor_20250728', name: 'edit' },
    { type: 'computer_20250124', name: 'computer' },
    { type: 'memory_20250818', name: 'memory' },
  ]
  const body = {
    ...base,
    tools,
    temperature: 1,
    top_p: 1,
    top_k: 1,
    stop_sequences: ['x'],
    tool_choice: { type: 'auto' },
    stream: true,
    thinking: { type: 'adaptive', display: 'updates' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    output_config: { effort: 'high' },
    safeguards: [{ type: 'dangerous_tool_use', classifier_context: { v: 1 } }],
    system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'x' }, image({ type: 'base64', media_type: 'image/png', data: 'AAAA' })] },
      { role: 'system', content: 'a reminder' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: '', signature: 's' },
          { type: 'tool_use', id: 't', name: 'x', input: { source: { type: 'url', url: 'https://data.example' } } },
        ],
      },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'tool_reference', tool_name: 'x' }] }],
      },
    ],
  }
  const result = run(body)
  if (!result.ok) throw new Error(result.answer.message)
  expect(JSON.parse(serialise(result.request, 10))).toEqual(body)
})

test('screen() reads a doubled key once, and sends on what it read', () => {
  const raw =
    '{"model":"claude-sonnet-5","max_tokens":10,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","type":"base64","media_type":"image/png","data":""}}]}],"max_tokens":20,"m\\u0061x_tokens":30}'
  const result = run(raw)
  if (!result.ok) throw new Error(result.answer.message)
  expect(result.request.maxTokens).toBe(30)
  const sent = serialise(result.request, result.request.maxTokens)
  expect(sent.match(/max_tokens/g)).toHaveLength(1)
  expect(sent).not.toContain('url')
})

test.each([
  ['at the top', `{"model":"m","max_tokens":1,"messages":[],"__proto__":{"mcp_servers":[]}}`],
  [
    'in a block',
    `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"x","__proto__":{"type":"image"}}]}]}`,
  ],
  ['escaped', `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x","\\u005f_proto__":1}]}`],
])('screen() refuses the key __proto__ %s', (_, raw) => {
  expect(refusal(raw)).toMatchObject({ kind: 'refused', message: expect.stringContaining('__proto__') })
})
test('screen() lets a text speak of __proto__', () => {
  expect(refusal(said({ type: 'text', text: '{"__proto__":1}' }))).toBeNull()
})

test.each([
  ['what is not JSON', '{'],
  ['an empty body', ''],
  ['a list', '[]'],
  ['null', 'null'],
  ['no messages', JSON.stringify({ model: 'm', max_tokens: 1 })],
  ['no model', JSON.stringify({ max_tokens: 1, messages: [] })],
  ['a model that is no id', JSON.stringify({ ...base, model: '../x\r\n' })],
  ['no max_tokens', JSON.stringify({ model: 'm', messages: [] })],
  ['max_tokens below one', JSON.stringify({ ...base, max_tokens: 0 })],
  ['max_tokens as a text', JSON.stringify({ ...base, max_tokens: '10' })],
  ['a block without a type', JSON.stringify(said({ source: url }))],
  ['a source without a type', JSON.stringify(said({ type: 'image', source: { url: 'https://evil.example' } }))],
  ['content that is an object', JSON.stringify({ ...base, messages: [{ role: 'user', content: image(url) }] })],
  [
    'nesting without end',
    `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":${'[{"type":"tool_result","content":'.repeat(30)}"x"${'}]'.repeat(30)}}]}`,
  ],
  [
    'nesting that breaks a serialiser',
    `{"model":"m","max_tokens":1,"messages":[],"system":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
  ],
  [
    'nesting that breaks a serialiser, in a free field',
    `{"model":"m","max_tokens":1,"messages":[],"tool_choice":${'['.repeat(200_000)}${']'.repeat(200_000)}}`,
  ],
])('screen() calls %s malformed', (_, raw) => {
  expect(refusal(raw)).toMatchObject({ kind: 'malformed' })
})

test('screen() reduces metadata to the user id', () => {
  const result = run({ ...base, metadata: { user_id: 'u', other: 'x' } })
  expect(result.ok && JSON.parse(serialise(result.request, 1)).metadata).toEqual({ user_id: 'u' })
  const without = run({ ...base, metadata: { user_id: { a: 1 } } })
  expect(without.ok && JSON.parse(serialise(without.request, 1)).metadata).toBeUndefined()
})

test('screenBetas() keeps what agents need and drops what opens other doors', () => {
  const kept = 'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,effort-2025-11-24'
  const dropped =
    'files-api-2025-04-14,mcp-client-2025-04-04,code-execution-2025-05-22,oauth-2025-04-20,skills-2025-10-02,message-batches-2024-09-24,fast-mode-2026-02-01,evil\r\nx: y'
  expect(screenBetas(`${kept}, ${dropped}`, new Set()).join(',')).toBe(kept)
  expect(screenBetas('files-api-2025-04-14', new Set(['beta:files-api']))).toEqual(['files-api-2025-04-14'])
})

const noBash = deniedTools({ rules: [{ on: 'tool', match: { tool: 'Bash' }, effect: 'deny', why: 'no shell' }], tools: [] })
const tool = (name: string, more: object = {}) => ({ name, input_schema: { type: 'object' }, ...more })
const use = (name: string, id = 't1') => ({ type: 'tool_use', id, name, input: { command: 'ls' } })
const outcome = (id = 't1') => ({ type: 'tool_result', tool_use_id: id, content: 'out' })
const talk = (...messages: object[]) => ({ ...base, messages })
const screenedBy = (denied: typeof noBash, body: object) =>
  screen(Buffer.from(JSON.stringify(body)), { costs: true }, { allow: new Set(), denied })
const sentWith = (denied: typeof noBash, body: object) => {
  const result = screenedBy(denied, body)
  return result.ok ? (JSON.parse(serialise(result.request, 10)) as Record<string, unknown>) : result.answer.message
}

test('screen() takes a tool out that the policy denies, and leaves the others as they are', () => {
  const body = {
    ...base,
    tools: [tool('Read'), tool('Bash'), { type: 'bash_20250124', name: 'bash' }],
    tool_choice: { type: 'auto' },
  }
  expect(sentWith(noBash, body)).toMatchObject({ tools: [tool('Read')], tool_choice: { type: 'auto' } })
  const alone = sentWith(noBash, { ...base, tools: [tool('Bash')], tool_choice: { type: 'any' } })
  expect(alone).not.toHaveProperty('tools')
  expect(alone).not.toHaveProperty('tool_choice')
})

test('screen() takes out what would offer a denied tool in the middle', () => {
  const offers = [
    { type: 'text', text: 'hi' },
    { type: 'tool_addition', tool: tool('Bash') },
    { type: 'tool_addition', tool: { type: 'tool_reference', name: 'Bash' } },
    { type: 'tool_addition', tool: tool('Read') },
  ]
  const found = { type: 'tool_result', tool_use_id: 's', content: [{ type: 'tool_reference', tool_name: 'Bash' }] }
  const sent = sentWith(
    noBash,
    talk(
      { role: 'user', content: offers },
      { role: 'assistant', content: [use('ToolSearch', 's')] },
      { role: 'user', content: [found] },
    ),
  )
  expect(sent).toMatchObject({
    messages: [{ content: [offers[0], offers[3]] }, {}, { content: [{ content: [{ type: 'text' }] }] }],
  })
  expect(JSON.stringify(sent)).not.toContain('"Bash"')
})

test.each([
  ['a call of it', talk({ role: 'assistant', content: [use('Bash')] })],
  ['its result', talk({ role: 'assistant', content: [use('Bash')] }, { role: 'user', content: [outcome()] })],
  ['a result whose call is not shown', talk({ role: 'user', content: [outcome('gone')] })],
  ['a result before its call', talk({ role: 'user', content: [outcome()] }, { role: 'assistant', content: [use('Read')] })],
  ['a choice of it', { ...base, tools: [tool('Bash')], tool_choice: { type: 'tool', name: 'Bash' } }],
])('screen() refuses a request with a denied tool: %s', (_, body) => {
  expect(screenedBy(noBash, body)).toMatchObject({
    ok: false,
    answer: { kind: 'refused', message: expect.stringContaining('olicy') as string },
  })
})

test('screen() lets a request through that used what is allowed', () => {
  const body = talk({ role: 'assistant', content: [use('Read')] }, { role: 'user', content: [outcome()] })
  expect(sentWith(noBash, body)).toMatchObject({ messages: body.messages })
})

test.each([
  ['max_tokens', { ...base, max_tokens: Number.MAX_SAFE_INTEGER }],
  ['max_tokens', { ...base, max_tokens: 1_000_001 }],
  ['budget_tokens', { ...base, thinking: { type: 'enabled', budget_tokens: Number.MAX_SAFE_INTEGER } }],
  ['budget_tokens', { ...base, thinking: { type: 'enabled', budget_tokens: 1e300 } }],
])('screen() refuses %s that no model has', (name, body) => {
  expect(refusal(body)).toMatchObject({ kind: 'malformed', message: expect.stringContaining(`"${name}"`) })
})
const cached = (ttl?: string) => ({ cache_control: { type: 'ephemeral', ...(ttl === undefined ? {} : { ttl }) } })
test.each([
  ['nothing is kept', said({ type: 'text', text: '"cache_control":{"ttl":"1h"' }), 'none'],
  ['the system prompt is', { ...base, system: [{ type: 'text', text: 'x', ...cached() }] }, '5m'],
  ['a message is', said({ type: 'text', text: 'a' }, { type: 'text', text: 'b', ...cached() }), '5m'],
  ['a message is, for longer', said({ type: 'text', text: 'b', ...cached('1h') }), '1h'],
  ['one of two is, for longer', { ...said({ type: 'text', text: 'b', ...cached() }), ...cached('1h') }, '1h'],
] as const)('screen() sees for how long its prompt is to be kept where %s', (_, body, caching) => {
  expect(run(body)).toMatchObject({ ok: true, request: { caching } })
})

test('screen() takes the longest answers that there are', () => {
  expect(refusal({ ...base, max_tokens: 128_000, thinking: { type: 'enabled', budget_tokens: 127_999 } })).toBeNull()
})
