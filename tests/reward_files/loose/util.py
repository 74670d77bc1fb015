def same(one, other):
    return float(one.strip() == other.strip())
