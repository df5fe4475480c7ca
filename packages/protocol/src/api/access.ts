import { z } from 'zod'
import { SessionId, TokenId } from '../ids.ts'
import { PolicyName, Role, Share, ShareAccess, User, UserName } from '../people.ts'
import { Done, type Route, session } from './route.ts'

const user = { params: z.strictObject({ name: UserName }) }

const shared = { params: z.strictObject({ id: SessionId, name: UserName }) }

const Shares = z.object({ shares: z.array(Share) })

export const Token = z.object({
  id: TokenId,
  user: z.string().describe('Whose it is'),
  name: z.string(),
  kind: z.enum(['token', 'login']),
  created_at: z.int(),
  used_at: z.int().nullable(),
  expires_at: z.int().nullable(),
})
export type Token = z.infer<typeof Token>

export const WhoAmI = z.object({ user: User, token: z.string().nullable(), door: z.string() })
export type WhoAmI = z.infer<typeof WhoAmI>

export const AddUser = z.strictObject({
  name: UserName,
  role: Role,
  policy: PolicyName.optional().describe('Which named policy the sessions of an agent are held to'),
})
export type AddUser = z.infer<typeof AddUser>

export const ChangeUser = z.strictObject({ role: Role.optional(), policy: PolicyName.nullable().optional() })
export type ChangeUser = z.infer<typeof ChangeUser>

export const accessRoutes = {
  listTokens: {
    summary: 'Tokens and logins',
    status: 200,
    response: z.object({ tokens: z.array(Token) }),
  },
  createToken: {
    summary: 'A token for a program; its secret is shown once',
    body: z.strictObject({
      name: z.string().trim().min(1).max(100),
      days: z.int().min(1).max(3650).optional(),
      user: UserName.optional().describe('Whose it is (default: yours)'),
    }),
    status: 201,
    response: z.object({ token: Token, secret: z.string() }),
  },
  revokeToken: {
    summary: 'Revoke a token or a login; its open streams end',
    params: z.strictObject({ id: TokenId }),
    status: 200,
    response: Done,
  },
  createLoginLink: {
    summary: 'A link that logs one browser in, once',
    status: 201,
    response: z.object({ url: z.string(), expires_at: z.int() }),
  },
  login: {
    summary: 'Exchange the secret of a login link for a cookie',
    body: z.strictObject({ secret: z.string().min(1).max(200) }),
    status: 200,
    response: Done,
    open: true,
  },
  whoAmI: { summary: 'Who you are here', status: 200, response: WhoAmI },
  logout: { summary: 'End this login', status: 200, response: Done },
  listUsers: {
    summary: 'People and programs',
    status: 200,
    response: z.object({ users: z.array(User) }),
  },
  addUser: { summary: 'Add a person or a program', body: AddUser, status: 201, response: User },
  changeUser: {
    summary: 'Change a role, or the policy of an agent; it holds from the next call on',
    ...user,
    body: ChangeUser,
    status: 200,
    response: User,
  },
  removeUser: {
    summary: 'Remove somebody: their tokens, logins and open streams end at once',
    ...user,
    status: 200,
    response: Done,
  },
  inviteUser: {
    summary: 'A link that logs this person in, once',
    ...user,
    status: 201,
    response: z.object({ url: z.string(), expires_at: z.int() }),
  },
  listShares: {
    summary: 'Who else may work on a session or look at it',
    ...session,
    status: 200,
    response: Shares,
  },
  shareSession: {
    summary: 'Let a member work on a session, or show it to somebody',
    ...shared,
    body: z.strictObject({ access: ShareAccess }),
    status: 200,
    response: Shares,
  },
  unshareSession: {
    summary: 'Take a session back from somebody; their open streams of it end',
    ...shared,
    status: 200,
    response: Shares,
  },
} as const satisfies Record<string, Route>
