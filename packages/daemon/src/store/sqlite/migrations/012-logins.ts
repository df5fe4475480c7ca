/** How people come in beside a link, and what is known of the devices that they did it from. */
export const logins = `
alter table token add column address text;
alter table token add column agent text;
alter table token add column proved_at integer;

create table password (
  user_id text primary key,
  hash text not null,
  set_at integer not null
) strict;

create table passkey (
  id text primary key,
  user_id text not null,
  name text not null,
  site text not null,
  public_key blob not null,
  counter integer not null,
  created_at integer not null,
  used_at integer
) strict;
create index passkey_user on passkey (user_id);

create table totp (
  user_id text primary key,
  secret blob not null,
  last_step integer not null
) strict;

create table recovery_code (
  user_id text not null,
  hash text not null,
  primary key (user_id, hash)
) strict, without rowid;
`
