/** Notified devices when somebody is needed. */
export const push = `
create table push_device (
  id text primary key,
  user_id text not null references user (id),
  token_id text not null,
  name text not null,
  endpoint text not null unique,
  p256dh text not null,
  auth text not null,
  created_at integer not null
) strict;
create index push_device_user on push_device (user_id);
`
